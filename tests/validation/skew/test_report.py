"""Reports on windows of the inference log: schema, missing and unseen values, times, and what an empty log says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.validation import world
from tests.validation.world import Served

from tidegate_serving.admission import Outcome
from tidegate_serving.contract import log_record
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_validation.skew import Columns, SkewReport, report_on_log, report_on_tables
from tidegate_validation.statistics import build_profile

FEATURES = ("weight", "size", "depot")
LATER = world.FIRST_DAY + 100


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty days of parcels, a fifth of the weights missing, as nulls."""
    directory = tmp_path_factory.mktemp("profile")
    table = world.parcels(30_000, seed=1, days=60)
    missing = np.random.default_rng(2).random(table.num_rows) < 0.2
    weights = pa.array(table["weight"].to_numpy(), mask=missing)
    build_profile(
        world.with_column(table, "weight", weights),
        features=FEATURES,
        label=world.LABEL,
        event_time=world.TIME,
        directory=directory,
    )
    return directory


def served(seed: int, rows: int = 4000, days: int = 4) -> pa.Table:
    """What an engine logs: missing weights arrive as NaN."""
    table = world.parcels(rows, seed=seed, days=days, first_day=LATER)
    weights = table["weight"].to_numpy().copy()
    weights[np.random.default_rng(seed).random(rows) < 0.2] = np.nan
    return world.with_column(table, "weight", weights)


def report(profile: Path, root: Path, table: pa.Table, **changes: object) -> SkewReport:
    world.write_log(root, Served(table, **changes))  # type: ignore[arg-type]
    return report_on_log(profile, root, model=world.NAME, version=1)


def test_what_is_served_as_in_training_passes(profile: Path, tmp_path: Path) -> None:
    found = report(profile, tmp_path, served(3))
    assert {name: found.feature(name).outcome for name in FEATURES} == dict.fromkeys(FEATURES, Outcome.PASS)
    assert found.outcome is Outcome.PASS
    assert found.rows == 4000
    with pytest.raises(NotFound, match="'height'"):
        found.feature("height")


def test_a_wrong_unit_is_named_in_one_sentence(profile: Path, tmp_path: Path) -> None:
    found = report(profile, tmp_path, world.scaled(served(4), "size", 2.54))
    assert found.outcome is Outcome.FAIL
    finding = found.feature("size")
    assert finding.sentence == "`size`: served values are 2.54 times those of training (centimetres against inches?)"
    assert finding.p_value is not None
    assert finding.p_value < 0.01
    assert found.sentence.startswith(finding.sentence)
    assert found.feature("weight").outcome is Outcome.PASS


def test_a_column_that_is_not_served_fails_and_a_new_one_is_noted(profile: Path, tmp_path: Path) -> None:
    table = world.with_column(served(5), "colour", ["red"] * 4000)
    found = report(profile, tmp_path, table, inputs=("weight", "depot", "colour"))
    assert found.feature("size").outcome is Outcome.FAIL
    assert "not served" in found.feature("size").sentence
    assert found.feature("colour").outcome is Outcome.WARN
    assert found.feature("weight").outcome is Outcome.PASS


def test_columns_that_the_log_hashes_or_leaves_out_are_told_and_not_blamed(profile: Path, tmp_path: Path) -> None:
    hashes = world.with_column(served(13), "depot", ["9f86d081884c7d65"] * 4000)
    world.write_log(tmp_path, Served(hashes, inputs=("size", "depot")))
    (file,) = tmp_path.rglob("*.parquet")
    table = pq.read_table(file)
    rules = {f"{log_record.RULE_KEY}in.depot": "hash", f"{log_record.RULE_KEY}in.weight": "omit"}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **rules}), file)
    found = report_on_log(profile, tmp_path, model=world.NAME, version=1)
    assert found.outcome is Outcome.PASS
    assert {one.subject for one in found.findings} == {"size"}
    assert found.sentence.endswith("Not compared: `weight` (left out of the log), `depot` (hashed in the log).")
    assert found.to_dict()["unlogged"] == {"depot": "hash", "weight": "omit"}


def test_a_column_of_another_type_fails(profile: Path, tmp_path: Path) -> None:
    table = served(6)
    texts = [str(value) for value in table["size"].to_pylist()]
    found = report(profile, tmp_path, world.with_column(table, "size", texts))
    assert found.feature("size").outcome is Outcome.FAIL
    assert found.feature("size").sentence == "`size`: was float in training and is served as text"


def test_a_column_that_held_nothing_in_training_had_no_type() -> None:
    before = world.with_column(world.parcels(600, seed=1), "height", pa.nulls(600))
    now = world.with_column(world.parcels(600, seed=2), "height", np.arange(600.0))
    found = report_on_tables(before, now, Columns(time=world.TIME)).feature("height")
    assert found.sentence == "`height`: held nothing in training and is served as float"


def test_null_in_training_is_nan_when_served_and_more_of_it_fails(profile: Path, tmp_path: Path) -> None:
    table = served(7)
    weights = table["weight"].to_numpy().copy()
    weights[::3] = np.nan
    found = report(profile, tmp_path, world.with_column(table, "weight", weights)).feature("weight")
    assert found.outcome is Outcome.FAIL
    assert found.check == "missing"
    assert found.number == pytest.approx(1 / 3 + 0.2 * 2 / 3 - 0.2, abs=0.02)


def test_a_column_that_is_missing_altogether_fails(profile: Path, tmp_path: Path) -> None:
    empty = world.with_column(served(8), "weight", np.full(4000, np.nan, dtype=np.float32))
    found = report(profile, tmp_path, empty).feature("weight")
    assert (found.outcome, found.check) == (Outcome.FAIL, "missing")


def test_infinities_fail(profile: Path, tmp_path: Path) -> None:
    table = served(9)
    sizes = table["size"].to_numpy().copy()
    sizes[:100] = np.inf
    found = report(profile, tmp_path, world.with_column(table, "size", sizes)).feature("size")
    assert (found.outcome, found.check) == (Outcome.FAIL, "infinite")


def test_a_new_category_fails_once_it_is_more_than_a_curiosity(profile: Path, tmp_path: Path) -> None:
    table = served(10)
    depots = table["depot"].to_pylist()
    one = report(profile, tmp_path / "one", world.with_column(table, "depot", ["moon", *depots[1:]]))
    assert one.feature("depot").outcome is Outcome.PASS
    some = report(profile, tmp_path / "some", world.with_column(table, "depot", ["moon"] * 80 + depots[80:]))
    assert (some.feature("depot").outcome, some.feature("depot").check) == (Outcome.FAIL, "unseen")


def test_rows_with_a_new_category_stay_in_the_distribution_test(profile: Path, tmp_path: Path) -> None:
    everything = world.with_column(served(17), "depot", ["moon"] * 4000)
    found = report(profile, tmp_path, everything)
    distribution = next(one for one in found.findings if (one.subject, one.check) == ("depot", "distribution"))
    assert distribution.outcome is Outcome.FAIL
    assert distribution.number == pytest.approx(2.0)


def test_new_categories_are_natural_where_every_day_brings_some(tmp_path: Path) -> None:
    """Good and Turing: one value in fifty was never seen before, every day, in training as in serving."""
    random = np.random.default_rng(11)

    def names(days: int, first: int) -> pa.Table:
        day = np.repeat(np.arange(days) + first, 200)
        kind = [f"v{random.integers(0, 400)}" if random.random() < 0.98 else f"{d}-{i}" for i, d in enumerate(day)]
        return pa.table({"kind": kind, world.TIME: day * world.DAY})

    build_profile(names(60, 0), features=["kind"], label=None, event_time=world.TIME, directory=tmp_path / "p")
    world.write_log(tmp_path / "log", Served(names(5, 100), inputs=("kind",)))
    found = report_on_log(tmp_path / "p", tmp_path / "log", model=world.NAME, version=1).feature("kind")
    assert found.outcome is Outcome.PASS, found.sentence


def test_only_the_window_the_version_and_the_role_that_are_asked_for_count(profile: Path, tmp_path: Path) -> None:
    right, wrong = served(12, days=2), world.scaled(served(13, days=2), "size", 25.4)
    later = world.with_column(wrong, world.TIME, wrong[world.TIME].to_numpy() + 10 * world.DAY)
    world.write_log(tmp_path, Served(right, block="right"))
    world.write_log(tmp_path, Served(later, block="later"))
    world.write_log(tmp_path, Served(wrong, block="shadow", role="shadow"))
    world.write_log(tmp_path, Served(wrong, block="other", version=2))
    cut = datetime.fromtimestamp((LATER + 5) * world.DAY, UTC)

    def on(**bounds: datetime) -> SkewReport:
        return report_on_log(profile, tmp_path, model=world.NAME, version=1, **bounds)  # type: ignore[arg-type]

    assert on(until=cut).feature("size").outcome is Outcome.PASS
    assert on(since=cut).feature("size").outcome is Outcome.FAIL
    assert (on(until=cut).rows, on(since=cut).rows, on().rows) == (4000, 4000, 8000)
    with pytest.raises(InvalidInput, match="time zone"):
        on(since=datetime(2026, 1, 1))


def test_requests_of_another_signature_lack_nothing(profile: Path, tmp_path: Path) -> None:
    world.write_log(tmp_path, Served(served(3)))
    for file in list(tmp_path.rglob("*.parquet")):
        table = pq.read_table(file)
        names = pa.array(["serving_default"] * len(table))
        pq.write_table(table.append_column("signature", names), file)
        others = table.drop_columns([name for name in table.column_names if name.startswith(("in.", "out."))])
        others = others.append_column("signature", pa.array(["embed"] * len(table)))
        pq.write_table(others.append_column("in.text", names), file.with_name(f"other-{file.name}"))
    found = report_on_log(profile, tmp_path, model=world.NAME, version=1)
    assert (found.outcome, found.rows) == (Outcome.PASS, 4000), found.sentence


def test_a_role_that_does_not_exist_is_named(profile: Path, tmp_path: Path) -> None:
    world.write_log(tmp_path, Served(served(18)))
    with pytest.raises(InvalidInput, match="use one of primary, shadow"):
        report_on_log(profile, tmp_path, model=world.NAME, version=1, role="x' OR '1'='1")


def test_an_empty_window_is_inconclusive(profile: Path, tmp_path: Path) -> None:
    found = report_on_log(profile, tmp_path, model=world.NAME, version=1)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert {found.feature(name).outcome for name in FEATURES} == {Outcome.INCONCLUSIVE}


def test_a_few_rows_are_inconclusive_not_a_pass(profile: Path, tmp_path: Path) -> None:
    found = report(profile, tmp_path, served(14, rows=12, days=1))
    assert found.feature("size").outcome is Outcome.INCONCLUSIVE
    assert found.feature("depot").outcome is Outcome.INCONCLUSIVE


def test_what_a_small_window_could_not_see_is_said_with_the_rows_that_would_show_it(
    profile: Path, tmp_path: Path
) -> None:
    small = report(profile, tmp_path / "small", served(14, rows=30, days=2)).feature("size")
    assert (small.outcome, small.rule) == (Outcome.INCONCLUSIVE, "skew.margin")
    assert small.smallest_detectable is not None
    assert small.rows_needed is not None
    assert small.rows_needed > 30
    enough = report(profile, tmp_path / "enough", served(14, rows=2 * small.rows_needed, days=30)).feature("size")
    assert enough.outcome is Outcome.PASS


def test_inputs_of_one_element_per_row_are_logged_as_lists_and_compared(profile: Path, tmp_path: Path) -> None:
    table = served(15)
    lists = pa.array([[value] for value in table["size"].to_pylist()], pa.list_(pa.float32()))
    found = report(profile, tmp_path, world.with_column(table, "size", lists))
    assert found.feature("size").outcome is Outcome.PASS


def test_the_report_is_plain_json(profile: Path, tmp_path: Path) -> None:
    found = report(profile, tmp_path, world.scaled(served(16, rows=300, days=1), "size", 2.54))
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["format"] == "tidegate.skew-report/1"
    assert document["findings"][0]["cause"]["factor"] == pytest.approx(2.54, rel=1e-4)
    shares = document["shares"]["size"]
    assert sum(shares["reference"]) == pytest.approx(1)
    assert sum(shares["current"]) == pytest.approx(1)
