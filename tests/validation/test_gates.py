"""All gates together: honest releases get through, mistakes are refused by the right gate, our own are ERROR."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.world import HONEST, Draft, Served, before_return

from tidegate_serving.admission import (
    GateResult,
    Outcome,
    Verdict,
    load_private_key,
    make_keys,
    read_trust,
    trusted_verdict,
    write_verdict,
)
from tidegate_serving.contract.errors import InvalidInput, Tampered
from tidegate_validation.case import Case
from tidegate_validation.evidence import Evidence
from tidegate_validation.gates import GATES, run_gates
from tidegate_validation.policy import Policy
from tidegate_validation.report import write_report
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.skew import report_on_log

LIMITS = RobustnessLimits(load_seconds=60, call_seconds=20, max_batch=128, sample_rows=300, golden_rows=4)
POLICY = Policy(robustness=LIMITS)
QUICK = replace(POLICY, run=("quality", "robustness", "skew"), required=("quality", "robustness", "skew"))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which version 1 serves, and the log of what it was sent."""
    root = tmp_path_factory.mktemp("shelf")
    world.publish(root, 1, Draft(training=training(1)))
    world.write_log(root / "log", Served(world.parcels(2500, seed=8, days=3, first_day=world.FIRST_DAY + 61)))
    return root


def training(seed: int) -> pa.Table:
    return world.parcels(12_000, seed=seed, days=60)


@dataclass(frozen=True)
class Request:
    """A version and what it is to be judged by."""

    directory: Path
    evidence: Evidence
    report: Path | None = None

    def changed(self, **changes: Any) -> Request:
        return replace(self, evidence=replace(self.evidence, **changes))


def validate(request: Request) -> Verdict:
    return run_gates(request.directory, request.evidence, report=request.report)


def request(shelf: Path, version: int, draft: Draft, policy: Policy = QUICK) -> Request:
    evidence = Evidence(
        world.parcels(3000, seed=9, days=30, first_day=world.FIRST_DAY + 60),
        world.LABEL,
        baseline=shelf / world.NAME / "1",
        training=draft.training,
        log_root=log if (log := shelf / "log").is_dir() else None,
        policy=policy,
    )
    return Request(world.publish(shelf, version, draft), evidence)


def gate(verdict: Verdict, name: str) -> GateResult:
    return next(one for one in verdict.gates if one.gate == name)


def test_an_honest_retrain_is_let_through_by_all_four_gates(shelf: Path, tmp_path: Path) -> None:
    draft = Draft(HONEST.replace("0.45", "0.46"), training=training(2))
    asked = replace(request(shelf, 2, draft, POLICY), report=tmp_path / "report")
    verdict = validate(asked)
    assert verdict.allowed, verdict.sentence
    assert verdict.outcome is Outcome.PASS
    assert [one.gate for one in verdict.gates] == ["expectations", "quality", "robustness", "skew"]
    assert all(one.seconds > 0 for one in verdict.gates)
    assert verdict.sentence == "parcels:2 may serve"
    page = write_report(verdict, tmp_path / "report")
    assert 'href="data-docs/index.html"' in page.read_text()
    make_keys(tmp_path / "key", tmp_path / "pub")
    write_verdict(verdict, tmp_path / "v.json", load_private_key(tmp_path / "key"))
    assert trusted_verdict(tmp_path / "v.json", read_trust([tmp_path / "pub"])).verdict == verdict


def test_a_wrong_unit_is_refused_by_the_skew_gate(shelf: Path) -> None:
    verdict = validate(request(shelf, 3, Draft(training=world.scaled(training(3), "size", 0.3048))))
    assert not verdict.allowed
    assert verdict.sentence == (
        "parcels:3 is refused by the skew gate: `size`: the candidate's training values are 0.3048 times those "
        "that are served (metres against feet?)"
    )


def test_a_crash_is_refused_by_the_robustness_gate(shelf: Path) -> None:
    line = 'if b"\\xe2\\x98\\x83" in b"".join(inputs["depot"].tolist()): __import__("os")._exit(0)'
    verdict = validate(request(shelf, 4, Draft(before_return(line), training=training(4))))
    assert verdict.sentence.startswith(
        'parcels:4 is refused by the robustness gate: with `depot="\u2603unseen"` its process'
    )


def test_a_missing_value_seen_only_in_the_log_must_be_answered(tmp_path: Path) -> None:
    world.publish(tmp_path, 1, Draft(training=training(1)))
    served = world.parcels(2500, seed=8, days=3, first_day=world.FIRST_DAY + 61)
    weights = served["weight"].to_numpy().copy()
    weights[:3] = np.nan
    world.write_log(tmp_path / "log", Served(world.with_column(served, "weight", weights)))
    source = before_return('score = score + np.where(np.isnan(inputs["weight"]), np.nan, 0)')
    policy = replace(POLICY, run=("robustness",), required=("robustness",))
    verdict = validate(request(tmp_path, 2, Draft(source, training=training(2)), policy))
    assert "missing values occur in the inference log" in verdict.sentence


def test_a_first_version_needs_no_baseline_and_is_marked(tmp_path: Path) -> None:
    asked = request(tmp_path, 5, Draft(training=training(5)))
    verdict = validate(asked.changed(baseline=None, log_root=None))
    assert verdict.allowed, verdict.sentence
    assert verdict.first
    assert verdict.baseline is None


def test_columns_of_held_out_data_that_no_model_takes_may_have_any_names(tmp_path: Path) -> None:
    policy = replace(POLICY, run=("skew",), required=("skew",))
    asked = request(tmp_path, 6, Draft(training=training(5)), policy).changed(baseline=None)
    rows, other = asked.evidence.held_out, pa.array(range(3000))
    for name in ("", "Note", "note", "Weight"):
        rows = rows.append_column(name, other)
    verdict = validate(asked.changed(held_out=rows))
    assert verdict.allowed, verdict.sentence


@pytest.mark.parametrize("name", ["expectations", "quality", "robustness", "skew"])
def test_an_exception_in_a_gate_is_an_error_and_denies(
    shelf: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(case: Case, policy: Policy) -> GateResult:
        raise ZeroDivisionError("our own mistake")

    monkeypatch.setitem(GATES, name, broken)
    policy = replace(POLICY, run=(name,), required=(name,))
    verdict = validate(request(tmp_path, 6, Draft(training=training(6)), policy).changed(baseline=None))
    assert (verdict.allowed, verdict.outcome) == (False, Outcome.ERROR)
    assert gate(verdict, name).sentence == f"the {name} gate could not finish: ZeroDivisionError: our own mistake"


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        (InvalidInput("say which of its outputs is judged"), "say which of its outputs is judged"),
        (
            ModuleNotFoundError("No module named 'scipy.stats'", name="scipy.stats"),
            "it needs scipy, which is not installed: run `pip install 'tidegate[validate]'`",
        ),
    ],
)
def test_what_a_gate_lacks_is_said_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lacks: Exception, said: str
) -> None:
    def refusing(case: Case, policy: Policy) -> GateResult:
        raise lacks

    monkeypatch.setitem(GATES, "quality", refusing)
    policy = replace(POLICY, run=("quality",), required=("quality",))
    verdict = validate(request(tmp_path, 6, Draft(training=training(6)), policy).changed(baseline=None))
    assert (verdict.allowed, verdict.outcome) == (False, Outcome.ERROR)
    assert gate(verdict, "quality").sentence == f"the quality gate could not finish: {said}"
    assert [record.exc_info for record in caplog.records if "could not finish" in record.message] == [None]


WITHOUT_XGBOOST = "import sys\nsys.modules['xgboost'] = None\n"


@pytest.mark.parametrize(
    ("source", "installed_by"),
    [
        (f"{WITHOUT_XGBOOST}import xgboost\n{HONEST}", "pip install 'tidegate[xgboost]'"),
        (f"import catboost\n{HONEST}", "pip install catboost"),
        (before_return("import catboost"), "pip install catboost"),
    ],
)
def test_a_package_that_is_missing_where_a_version_is_judged_is_no_fault_of_the_version(
    tmp_path: Path, source: str, installed_by: str
) -> None:
    asked = request(tmp_path, 6, Draft(source, training=training(6))).changed(baseline=None)
    verdict = validate(asked)
    assert (verdict.allowed, verdict.outcome) == (False, Outcome.ERROR), verdict.sentence
    for name in ("quality", "robustness"):
        told = gate(verdict, name)
        assert told.outcome is Outcome.ERROR, told.sentence
        assert f"{tmp_path / world.NAME / '6'} needs " in told.sentence
        assert f"`{installed_by}`" in told.sentence


def test_a_module_beside_itself_that_is_not_among_a_versions_files_is_its_fault(tmp_path: Path) -> None:
    policy = replace(POLICY, run=("robustness",), required=("robustness",))
    source = f"from . import features\n{HONEST}"
    verdict = validate(request(tmp_path, 6, Draft(source, training=training(6)), policy).changed(baseline=None))
    assert verdict.outcome is Outcome.FAIL, verdict.sentence
    assert "features" in verdict.sentence


def test_of_a_module_that_may_be_its_own_or_a_packages_the_verdict_tells_both_cures(tmp_path: Path) -> None:
    policy = replace(POLICY, run=("robustness",), required=("robustness",))
    source = f"import our_features\n{HONEST}"
    verdict = validate(request(tmp_path, 6, Draft(source, training=training(6)), policy).changed(baseline=None))
    assert (verdict.allowed, verdict.outcome) == (False, Outcome.ERROR), verdict.sentence
    assert "if it is yours, publish it with the version" in verdict.sentence
    assert "if it is a package, run `pip install our_features`" in verdict.sentence


def test_a_package_that_only_some_rows_ask_for_is_asked_for_too_late(tmp_path: Path) -> None:
    policy = replace(POLICY, run=("robustness",), required=("robustness",))
    source = before_return(
        f"if np.isinf(inputs['weight']).any(): {WITHOUT_XGBOOST.splitlines()[0]}; import no_such_one"
    )
    verdict = validate(request(tmp_path, 6, Draft(source, training=training(6)), policy).changed(baseline=None))
    assert verdict.outcome is Outcome.FAIL, verdict.sentence


def test_a_version_without_a_profile_is_not_called_the_same_as_served(tmp_path: Path) -> None:
    policy = replace(POLICY, run=("skew",), required=("skew",))
    verdict = validate(request(tmp_path, 7, Draft(), policy).changed(baseline=None))
    assert (verdict.allowed, verdict.outcome) == (False, Outcome.INCONCLUSIVE)


def test_a_version_whose_files_were_changed_is_not_judged(shelf: Path) -> None:
    asked = request(shelf, 8, Draft(training=training(8)))
    (asked.directory / "model.py").write_text(HONEST + "# changed\n")
    with pytest.raises(Tampered, match=r"model\.py"):
        validate(asked)


def test_no_data_is_a_mistake_of_the_caller(shelf: Path) -> None:
    asked = request(shelf, 9, Draft(training=training(9)))
    with pytest.raises(InvalidInput, match="no rows"):
        validate(asked.changed(held_out=asked.evidence.held_out.slice(0, 0)))


class Links(HTMLParser):
    """Everything that a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read_page(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text())
    return links


def strict_json(path: Path) -> dict[str, object]:
    def refuse(name: str) -> Iterator[None]:
        raise AssertionError(f"{name} is no JSON")

    found: dict[str, object] = json.loads(path.read_text(), parse_constant=refuse)
    return found


def test_the_page_of_a_verdict_needs_nothing_from_outside(shelf: Path, tmp_path: Path) -> None:
    line = 'if b"<script>" in inputs["depot"].tolist(): __import__("os").abort()'
    asked = request(shelf, 10, Draft(before_return(line), training=training(10)))
    depots = ["<script>", *asked.evidence.held_out["depot"].to_pylist()[1:]]
    verdict = validate(asked.changed(held_out=world.with_column(asked.evidence.held_out, "depot", depots)))
    page = write_report(verdict, tmp_path)
    assert "<script" not in page.read_text()
    links = read_page(page)
    assert links.found == ["verdict.json"]
    words = " ".join(" ".join(links.text).split())
    assert "This version may not serve." in words
    assert "What we could not see" in words
    assert "its process was ended by SIGABRT" in words
    assert strict_json(tmp_path / "verdict.json")["allowed"] is False


def test_the_page_of_a_skew_report_shows_both_distributions(shelf: Path, tmp_path: Path) -> None:
    table = world.scaled(world.parcels(900, seed=8, days=1, first_day=world.FIRST_DAY + 61), "size", 3.6)
    evil = world.with_column(table, "depot", ["<script>alert(1)</script>"] * 900)
    world.write_log(tmp_path / "log", Served(evil))
    profile = shelf / world.NAME / "1" / "profile"
    found = report_on_log(profile, tmp_path / "log", model=world.NAME, version=1)
    page = write_report(found, tmp_path / "page")
    assert read_page(page).found == ["skew.json"]
    text = page.read_text()
    assert "3.6 times those of training" in text
    assert 'class="bars"' in text
    assert "<script" not in text
    assert strict_json(tmp_path / "page" / "skew.json")["outcome"] == "FAIL"
