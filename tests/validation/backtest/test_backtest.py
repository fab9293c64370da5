"""A backtest on a made-up past: one release that loses accuracy, one feed that changes its unit for two weeks."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from tests.support.log_blocks import FakeBlock, write_log
from tests.validation import world
from tests.validation.world import HONEST, Draft, before_return

from tidegate_operators.steps.backtest import (
    PastData,
    PastModels,
    _logged,
    _with_labels,
    backtest,
    read_released,
    usual_delay,
)
from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused
from tidegate_validation.backtest import Backtest, BacktestRule, History
from tidegate_validation.backtest.drifts import stability_indexes
from tidegate_validation.backtest.history import PastRelease, periods
from tidegate_validation.backtest.metrics import MetricRule, measure
from tidegate_validation.backtest.page import _facts
from tidegate_validation.backtest.result import Alarm, MetricLoss
from tidegate_validation.backtest.run import _following
from tidegate_validation.policy import Policy
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.skew.report import BinShares

FIRST = world.FIRST_DAY
CHANGED = range(FIRST + 70, FIRST + 84)
WORSE = before_return('score = score * 0.1 + 3 * (inputs["depot"] == b"south")')
RULE = BacktestRule(days=14, window=7, step=7)
_MOMENTS = [datetime(2026, month, 1, tzinfo=UTC) for month in (1, 7)]


def day(number: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=number)).isoformat()


def served() -> pa.Table:
    """A hundred days; for two weeks the weights come in pounds."""
    table = world.parcels(15_000, seed=3, days=100)
    days = table[world.TIME].to_numpy() // world.DAY
    pounds = np.isin(days, CHANGED)
    weight = np.where(pounds, table["weight"].to_numpy() * 2.2046, table["weight"].to_numpy())
    return world.with_column(table, "weight", weight.astype(np.float32))


def test_a_past_is_told_release_by_release_and_drift_by_drift(tmp_path: Path) -> None:
    training = world.parcels(3000, seed=9, days=30, first_day=FIRST - 30)
    for version, source in ((1, HONEST), (2, WORSE), (3, HONEST)):
        world.publish(tmp_path, version, Draft(source=source, training=training))
    released = {"1": day(FIRST + 15), "2": day(FIRST + 30), "3": day(FIRST + 45)}
    (tmp_path / "released.csv").write_text(
        "version,released\n" + "\n".join(",".join(pair) for pair in released.items())
    )
    assert read_released(tmp_path / "released.csv") == released

    past = PastModels(tmp_path / world.NAME, released)
    found = backtest(past, PastData(served(), world.TIME, world.LABEL), rule=RULE, report=tmp_path / "report")

    assert [(one.name, one.refused, one.against) for one in found.releases] == [
        ("1", False, None),
        ("2", True, "1"),
        ("3", False, "2"),
    ]
    assert "quality: worse than the version that serves now" in found.releases[1].reasons[0]
    (drift,) = [one for one in found.drifts if one.alarm.column == "weight"]
    assert drift.alarm.name == "3"
    assert drift.alarm.told in range(CHANGED.start, CHANGED.start + 7)
    assert drift.alarm.until in range(CHANGED.stop - 1, CHANGED.stop + 7)
    assert drift.metric_told is not None
    assert drift.ahead == drift.metric_told - drift.alarm.told
    assert {one.column for one in (drift.alarm for drift in found.drifts)} == {"weight"}
    assert [one.name for one in found.metric_losses] == ["3"]
    assert {one.rule: one.followed for one in found.counts} == dict.fromkeys(
        ("Tidegate", "PSI above 0.1", "PSI above 0.2"), 1
    )
    assert found.unjudged == ()
    page = (tmp_path / "report" / "index.html").read_text()
    assert "1 of 3 past releases would have been refused (<code>2</code>)" in page
    assert "http" not in page.replace("http-equiv", ""), "nothing is fetched"
    document = json.loads((tmp_path / "report" / "backtest.json").read_text())
    assert document["format"] == "tidegate.backtest/1"
    assert document["releases"][1]["refused"] is True


def test_models_that_nobody_published_and_no_labels(tmp_path: Path) -> None:
    """Releases cannot be judged, which is said; drifts are named against the rows before the release."""
    models = tmp_path / "models"
    models.mkdir()
    (models / f"{day(FIRST + 40)}.py").write_text(HONEST)
    signature = tmp_path / "signature.json"
    signature.write_text(json.dumps(world.SIGNATURE.to_dict()))
    past = PastModels(models, platform="python", signature=signature)
    table = served().drop_columns([world.LABEL])
    found = backtest(past, PastData(table, world.TIME), rule=RULE)
    (trial,) = found.releases
    assert (trial.refused, trial.released) == (None, day(FIRST + 40))
    assert {one.alarm.column for one in found.drifts} == {"weight"}
    assert found.drifts[0].ahead is None
    assert {one.followed for one in found.counts} == {None}
    assert any("no labels are known" in text for text in found.unjudged)
    assert found.sentence.startswith("0 of 0 past releases")


def test_what_a_log_says_of_its_requests_is_no_feature_of_a_model(tmp_path: Path) -> None:
    """A slower machine was told as a drift of the model's `latency_us`."""
    log, models = tmp_path / "log", tmp_path / "m"
    models.mkdir()
    (models / f"{day(FIRST + 10)}.py").write_text(HONEST)
    signature = tmp_path / "signature.json"
    signature.write_text(json.dumps(world.SIGNATURE.to_dict()))
    random = np.random.default_rng(5)
    for number in range(20):
        inputs = {name: random.normal(size=60).astype("f4") for name in ("weight", "size")} | {
            "depot": np.full(60, "north")
        }
        received = datetime(1970, 1, 1, 12, tzinfo=UTC) + timedelta(days=FIRST + number)
        latency = np.full(60, 100 if number < 10 else 9000)
        write_log(log, FakeBlock(inputs, {"p": random.random(60)}, received=received, latency_us=latency))
    past = PastModels(models, platform="python", signature=signature)
    assert backtest(past, PastData(log), rule=RULE).drifts == ()


def test_models_without_training_profiles_are_judged_by_what_they_answer_alone(tmp_path: Path) -> None:
    """Skew has nothing to judge them by, which is no reason to refuse one; a worse one is refused by its quality."""
    models = tmp_path / "models"
    models.mkdir()
    (models / f"{day(FIRST + 30)} first.py").write_text(HONEST)
    (models / f"{day(FIRST + 50)} second.py").write_text(WORSE)
    signature = tmp_path / "signature.json"
    signature.write_text(json.dumps(world.SIGNATURE.to_dict()))
    past = PastModels(models, platform="python", signature=signature)

    found = backtest(past, PastData(served(), world.TIME, world.LABEL), rule=RULE)

    first, second = found.releases
    assert (first.refused, first.outcome, first.reasons) == (False, "WARN", ())
    assert first.sentence.startswith("quality: ")
    assert f"the skew gate had nothing to judge by: {day(FIRST + 30)}-first:1 has no training profile" in first.sentence
    assert [text for text in found.unjudged if "first.py: the skew gate" in text]
    assert second.refused
    assert [text.split(":")[0] for text in second.reasons] == ["quality"]
    assert found.sentence.startswith(f"1 of 2 past releases would have been refused (`{second.name}`); ")


def test_a_version_that_cannot_be_asked_any_more_is_not_called_refused(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / f"{day(FIRST + 40)}.py").write_text(HONEST.replace("import numpy as np", "import lightfm"))
    signature = tmp_path / "signature.json"
    signature.write_text(json.dumps(world.SIGNATURE.to_dict()))
    past = PastModels(models, platform="python", signature=signature)
    found = backtest(past, PastData(served(), world.TIME, world.LABEL), rule=RULE)
    (trial,) = found.releases
    assert (trial.refused, trial.reasons) == (None, ())
    assert "needs the module lightfm" in trial.sentence
    assert any(
        "its metrics are not known: " in text and "needs the module lightfm" in text for text in found.unjudged
    ), found.unjudged


def test_pickles_are_told_before_anything_is_judged_unless_the_policy_allows_them(tmp_path: Path) -> None:
    models = tmp_path / "models"
    (models / "1").mkdir(parents=True)
    (models / "1" / "model.joblib").write_bytes(b"no estimator")
    signature = tmp_path / "signature.json"
    signature.write_text(json.dumps(world.SIGNATURE.to_dict()))
    past = PastModels(models, {"1": day(FIRST + 40)}, platform="sklearn", signature=signature)
    data = PastData(served(), world.TIME, world.LABEL)
    with pytest.raises(PermissionRefused, match=r"model.joblib is a pickle, .*allow_pickle = true under .robustness"):
        backtest(past, data, rule=RULE)
    policy = Policy(robustness=RobustnessLimits(allow_pickle=True))
    assert len(backtest(past, data, policy=policy, rule=RULE).releases) == 1


def test_labels_that_come_late_twice_and_for_nobody_are_joined_by_key() -> None:
    rows = pa.table({"request_id": ["a", "b", "c"], "x": [1.0, 2.0, 3.0]})
    labels = pa.table(
        {"request_id": ["b", "z", "a", "b", "a"], "late": [1, 1, 0, 0, 1], "at": [5, 1, 9, 2, None]},
    )
    data = PastData(rows, "x", "late", labels)
    assert _with_labels(rows, data)["late"].to_pylist() == [0, 1, None]
    in_order = labels.drop_columns(["at"])
    assert _with_labels(rows, PastData(rows, "x", "late", in_order))["late"].to_pylist() == [1, 0, None]
    with pytest.raises(InvalidInput, match="labels have no column 'order'"):
        _with_labels(rows.append_column("order", rows["x"]), PastData(rows, "x", "late", labels, key="order"))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()])
def test_labels_whose_keys_a_file_read_as_numbers_find_their_rows(kind: pa.DataType) -> None:
    rows = pa.table({"request_id": ["7", "8", "9"], "x": [1.0, 2.0, 3.0]})
    labels = pa.table({"request_id": pa.array([8, 9]).cast(kind), "late": [1, 0]})
    assert _with_labels(rows, PastData(rows, "x", "late", labels))["late"].to_pylist() == [None, 1, 0]
    others = labels.set_column(0, "request_id", pa.array([18, 19]).cast(kind))
    told = r"no label has the 'request_id' of a logged row: .* '18', rows such as '7': .* or wait"
    with pytest.raises(InvalidInput, match=told):
        _with_labels(rows, PastData(rows, "x", "late", others))


@pytest.mark.parametrize(
    ("logged", "labelled"),
    [
        (pa.array([Decimal("50.00"), Decimal("7.50")]), pa.array([Decimal("50.0"), Decimal("7.5")])),
        (pa.array([Decimal("50.00"), Decimal("0.00")]), pa.array([50, 0])),
        (pa.array([True, False]), pa.array([1, 0])),
        (pa.array(_MOMENTS, pa.timestamp("us", "UTC")), pa.array(_MOMENTS, pa.timestamp("us", "Europe/Berlin"))),
    ],
)
def test_keys_that_are_equal_and_of_two_types_are_one(logged: pa.Array, labelled: pa.Array) -> None:
    rows = pa.table({"order": logged, "x": [1.0, 2.0]})
    labels = pa.table({"order": labelled, "late": [1, 0]})
    found = _with_labels(rows, PastData(rows, "x", "late", labels, key="order"))["late"].to_pylist()
    assert found == [1, 0]


def test_labels_that_name_rows_belong_to_these_rows() -> None:
    rows = pa.table(
        {"request_id": ["a", "a", "b"], "row": [0, 1, 0], "sent": [date(2026, 1, day) for day in (1, 2, 3)]}
    )
    labels = pa.table(
        {"request_id": ["a", "a"], "row": [1, 0], "late": [1, 0], "at": [date(2026, 1, 4), date(2026, 1, 9)]}
    )
    data = PastData(rows, "sent", "late", labels)
    assert _with_labels(rows, data)["late"].to_pylist() == [0, 1, None]
    assert usual_delay(rows, "sent", data) == 8


def test_labels_say_themselves_how_late_they_are_known() -> None:
    """The first time counts, not a correction's; the one in ten that took longest does not."""
    morning = datetime(2026, 3, 1, tzinfo=UTC)
    keys = [str(row) for row in range(20)]
    logged = pa.table({"request_id": keys, "sent": [morning] * 20})
    waited = [40, 30, *[5] * 9, *[2] * 9]
    late = [morning + timedelta(days=days) for days in waited]
    labels = pa.table(
        {"request_id": [*keys, "0", "?"], "late": [1] * 22, "at": [*late, morning + timedelta(90), morning]}
    )
    assert usual_delay(logged, "sent", PastData(logged, "sent", "late", labels=labels)) == 5
    untold = labels.drop_columns(["at"])
    assert usual_delay(logged, "sent", PastData(logged, "sent", "late", labels=untold)) is None


@pytest.mark.parametrize("unit", ["seconds", "milliseconds", "text"])
def test_when_labels_were_found_may_be_told_in_any_way(unit: str) -> None:
    """Unix seconds read as no delay at all, and texts were put in the order of the alphabet, whatever their zone."""
    moments = [datetime(2026, 3, 3, 23, tzinfo=UTC), datetime(2026, 3, 4, 1, tzinfo=timezone(timedelta(hours=5)))]
    told = {
        "seconds": [int(one.timestamp()) for one in moments],
        "milliseconds": [int(one.timestamp() * 1000) for one in moments],
        "text": [one.isoformat() for one in moments],
    }
    rows = pa.table({"request_id": ["a"], "sent": [datetime(2026, 3, 1, tzinfo=UTC)]})
    data = PastData(rows, "sent", "late", pa.table({"request_id": ["a", "a"], "late": [1, 0], "at": told[unit]}))
    assert _with_labels(rows, data)["late"].to_pylist() == [1]
    assert usual_delay(rows, "sent", data) == 2


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ({"t": [1.0]}, "sent", "no column 'sent'"),
        ({"t": pa.array([], pa.int64())}, "t", "nothing was logged"),
        ({"t": ["monday"]}, "t", "logged rows: column 't' holds 'monday', which is no time"),
        ({"t": [1.0, None]}, "t", "1 row has no t"),
    ],
)
def test_rows_without_a_time_are_refused(table: dict[str, object], column: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        History.of(pa.table(table), column)


@pytest.mark.parametrize("unit", [1_000, 1_000_000, 1_000_000_000])
def test_days_are_those_of_numbers_in_any_unit_and_of_texts(unit: int) -> None:
    """Milliseconds ended all of a backtest's work with the year 56728."""
    days = FIRST + np.arange(3)
    assert History.of(pa.table({"t": days * 86_400 * unit}), "t").days.tolist() == days.tolist()
    assert History.of(pa.table({"t": [day(int(one)) for one in days]}), "t").days.tolist() == days.tolist()


def test_rows_without_an_answer_count_for_no_loss_and_are_told(tmp_path: Path) -> None:
    """One of them made the loss of its whole window NaN, which was told as "+nan % loss"."""
    world.publish(tmp_path, 1, Draft())
    table = world.parcels(3000, seed=4, days=30)
    answers = [None if row % 500 == 0 else 0.4 + row % 7 / 70 for row in range(table.num_rows)]
    rows = table.append_column("p", pa.array(answers, pa.float64()))
    history = History.of(rows, world.TIME, world.LABEL, "p")
    past = [PastRelease(tmp_path / world.NAME / "1", "1", FIRST + 15)]
    rule = MetricRule(window=7, days=14, margin=0.05, delay=0)
    found = measure(history, periods(past, history.end), QualityRule(), SandboxLimits(), rule)
    assert found.worse == []
    assert np.isfinite(list(found.losses.values())).all()
    assert any("have no answer that is a number, and count for no loss" in text for text in found.unjudged)


def test_rows_are_found_by_day() -> None:
    history = History.of(pa.table({"t": [3 * world.DAY, 0, world.DAY], "y": [1, None, 0]}), "t", "y")
    assert (history.first, history.end) == (0, 4)
    assert history.between(0, 2)["t"].to_pylist() == [0, world.DAY]
    assert history.labelled(0, 4)["y"].to_pylist() == [0, 1]


def test_mistakes_are_told(tmp_path: Path) -> None:
    data = PastData(world.parcels(10, seed=1), world.TIME)
    with pytest.raises(NotFound, match="is no folder"):
        backtest(PastModels(tmp_path / "none"), data)
    with pytest.raises(InvalidInput, match="no version is given"):
        backtest(PastModels(tmp_path), data)
    with pytest.raises(InvalidInput, match=r"name the column of its time .--time., one of .*weight"):
        backtest(PastModels(tmp_path), PastData(world.parcels(10, seed=1)))
    with pytest.raises(NotFound, match=r"logged rows .*none is missing"):
        backtest(PastModels(tmp_path), PastData(tmp_path / "none"))
    for number in (1, 2):
        world.publish(tmp_path, number, Draft())
    with pytest.raises(InvalidInput, match=f"1 is one version: name the folder that holds all, .*/{world.NAME}"):
        backtest(PastModels(tmp_path / world.NAME / "1"), data)
    with (
        contextlib.chdir(tmp_path / world.NAME / "1"),
        pytest.raises(InvalidInput, match=f"is one version: name the folder that holds all, .*/{world.NAME}$"),
    ):
        backtest(PastModels(Path()), data)
    with pytest.raises(InvalidInput, match=r"both released on 2026-01-01.*--released FILE"):
        backtest(PastModels(tmp_path / world.NAME), data)
    with pytest.raises(InvalidInput, match="'soon' is no day on which 1 was released"):
        backtest(PastModels(tmp_path / world.NAME, {"1": "soon"}), data)
    with pytest.raises(InvalidInput, match="gate 'speed' is unknown"):
        BacktestRule(gates=("speed",))
    with pytest.raises(InvalidInput, match="step is 0"):
        BacktestRule(step=0)


def test_of_a_log_of_several_models_the_rows_of_one_count_with_the_columns_of_all_its_files(tmp_path: Path) -> None:
    log, one, two = tmp_path / "log", {"x": np.ones(2)}, {"x": np.ones(1), "z": np.ones(1)}
    write_log(log, FakeBlock(one, {"p": np.ones(2)}, status=[0, 13]))
    write_log(log, FakeBlock(two, {"p": np.ones(1)}, version=2))
    write_log(log, FakeBlock(one, {"p": np.ones(2)}, version=2, role=[1, 1]))
    write_log(log, FakeBlock(one, {"p": np.ones(2)}, model="other"))
    (tmp_path / "m").mkdir()
    table, time, own = _logged(PastData(log), PastModels(tmp_path / "m"))
    assert sorted(set(table.column_names).difference(own)) == ["p", "x", "z"]
    assert (sorted(table["version"].to_pylist()), set(table["model"].to_pylist())) == ([1, 2], {"m"})
    assert (table.sort_by("version")["z"].to_pylist(), time) == ([None, 1.0], "received_at")
    (tmp_path / "old-models").mkdir()
    with pytest.raises(InvalidInput, match="of the models m, other, and the models in "):
        _logged(PastData(log), PastModels(tmp_path / "old-models"))


def test_of_a_log_of_several_signatures_the_rows_of_the_one_that_gates_judge_count(tmp_path: Path) -> None:
    log, models = tmp_path / "log", tmp_path / "m"
    models.mkdir()
    write_log(log, FakeBlock({"x": np.ones(2)}, {"p": np.ones(2)}))
    texts = np.array([b"one", b"two"], object)
    write_log(log, FakeBlock({"x": texts, "only": np.ones(2)}, {"p": texts}, signature="explain"))
    table, _, own = _logged(PastData(log), PastModels(models))
    assert (table["x"].to_pylist(), table["p"].to_pylist()) == ([1.0, 1.0], [1.0, 1.0])
    assert {*table.column_names} - own == {"x", "p"}


def test_an_index_of_stability() -> None:
    same = BinShares(("a", "b"), (0.5, 0.5), (0.5, 0.5))
    moved = BinShares(("a", "b"), (0.5, 0.5), (0.8, 0.2))
    found = stability_indexes({"same": same, "moved": moved})
    assert found["same"] == 0.0
    assert found["moved"] == pytest.approx(0.3 * np.log(0.8 / 0.5) - 0.3 * np.log(0.2 / 0.5))


@pytest.mark.parametrize(("told", "follows"), [(92, False), (93, True), (100, True), (131, True), (132, False)])
def test_a_loss_follows_an_alarm_within_the_horizon(told: int, follows: bool) -> None:
    alarm = Alarm("x", "1", told=100, until=103)
    assert (_following(alarm, [MetricLoss("1", told, told, "")], BacktestRule()) is not None) == follows
    assert _following(alarm, [MetricLoss("2", told, told, "")], BacktestRule()) is None


def test_a_version_serves_until_the_next_or_the_end() -> None:
    one, two, later = (PastRelease(Path(), name, number) for name, number in (("1", 3), ("2", 7), ("3", 20)))
    assert periods([one, two, later], 10) == [(one, 7), (two, 10), (later, 10)]


def test_one_day_is_told_in_the_singular() -> None:
    settings = {"gates": ["quality"], "days": 28, "windows": 3, "window": 7, "step": 1, "delay": 1, "horizon": 28}
    facts = dict(_facts(cast("Backtest", SimpleNamespace(settings=settings))))
    assert facts["Windows of served rows"] == "3 of 7 days, every 1 day"
    assert facts["A label is known after"] == "1 day"
