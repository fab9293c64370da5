"""The demo's summary: the document's form, and that each way in which the demo can fail makes it fail."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tidegate_flights.demo import tell
from tidegate_flights.engine import Addresses
from tidegate_flights.folders import Folders
from tidegate_flights.mistakes import Mistake
from tidegate_flights.options import DemoOptions
from tidegate_flights.releases import Refusal, refusal_of
from tidegate_flights.story import Story
from tidegate_flights.summary import DayReport, LogCounts, Summary
from tidegate_flights.traffic import ReplayResult
from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import ServableId

REFUSED = [
    Refusal(3, "skew", "In training distance is 1.609 times what the feed sends.", "distance", 1.6092),
    Refusal(4, "robustness", "It died of an unseen carrier.", example={"carrier": "XX"}),
    Refusal(5, "quality", "It is too good to be true: dep_delay alone tells the label.", "dep_delay"),
]


def replay(**changes: Any) -> ReplayResult:
    latencies = np.array([900, 1100, 1000, 9000])
    found = ReplayResult(2, 2, 10, 0, 0, {"1": 1, "2": 3}, (), latencies)
    return dataclasses.replace(found, **changes)


def summary(**changes: Any) -> Summary:
    found = Summary(
        options=DemoOptions(),
        seconds=200.04,
        versions={"1": "END", "2": "AVAILABLE"},
        replays=(replay(), replay(by_version={"2": 4})),
        canary={"shadowed": 300, "compared": 299, "max_difference": 0.4},
        refused=REFUSED,
        clean_day=DayReport("PASS", None, "distance is as in training."),
        wrong_day=DayReport("FAIL", 1.6101, "distance is 1.610 times what training showed."),
        log=LogCounts(20, 20, 0, 20, Path("log")),
        report=Path("june/index.html"),
        engine_status=0,
        hub="http://127.0.0.1:8600",
        hub_problems=(),
    )
    return dataclasses.replace(found, **changes)


def test_a_demo_that_held_has_the_promised_form(tmp_path: Path) -> None:
    summary().write(tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "format": "tidegate.demo/1",
        "ok": True,
        "seconds": 200.0,
        "versions": {"1": "END", "2": "AVAILABLE"},
        "requests": {
            "grpc": 4, "rest": 4, "failed": 0, "wrong": 0, "by_version": {"1": 1, "2": 7},
            "p50_ms": 1.05, "p99_ms": 9.0,
        },
        "canary": {"shadowed": 300, "compared": 299, "max_difference": 0.4},
        "refused": [
            {"version": 3, "gate": "skew", "feature": "distance", "factor": 1.6092, "sentence": REFUSED[0].sentence},
            {"version": 4, "gate": "robustness", "input": {"carrier": "XX"}, "sentence": REFUSED[1].sentence},
            {"version": 5, "gate": "quality", "feature": "dep_delay", "sentence": REFUSED[2].sentence},
        ],
        "clean_day": {"distance": "PASS"},
        "wrong_unit_day": {"distance": "FAIL", "factor": 1.6101},
        "log": {"eligible": 20, "written": 20, "dropped": 0, "path": "log"},
        "report": "june/index.html",
        "hub": "http://127.0.0.1:8600",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"versions": {"1": "AVAILABLE", "2": "AVAILABLE"}}, "the versions stand at"),
        ({"engine_status": -9}, "ended with status -9"),
        ({"replays": (replay(), replay(failed=1, problems=("rest: timed out",)))}, "1 requests failed: rest: timed"),
        ({"replays": (replay(), replay(wrong=1, problems=("row 5",)))}, "1 requests were answered with another value"),
        ({"replays": (replay(rest=0), replay(rest=0))}, "no request went over rest"),
        ({"replays": (replay(by_version={"2": 4}), replay(by_version={"2": 4}))}, "versions ['2'] answered"),
        ({"replays": (replay(by_version={"1": 1, "2": 1, "3": 2}), replay())}, "versions ['1', '2', '3'] answered"),
        ({"canary": {"shadowed": 5, "compared": 0, "max_difference": 0.0}}, "the canary compared no answers"),
        ({"refused": REFUSED[1:]}, "version 3 was not refused"),
        ({"refused": [dataclasses.replace(REFUSED[0], gate="quality"), *REFUSED[1:]]}, "quality and not by skew"),
        ({"refused": [dataclasses.replace(REFUSED[0], feature="seats"), *REFUSED[1:]]}, "names seats and not distance"),
        ({"refused": [dataclasses.replace(REFUSED[0], factor=1.63), *REFUSED[1:]]}, "names factor 1.63"),
        ({"refused": [dataclasses.replace(REFUSED[0], factor=None), *REFUSED[1:]]}, "names factor None"),
        ({"refused": [*REFUSED[:2], dataclasses.replace(REFUSED[2], sentence="")]}, "without a reason"),
        ({"clean_day": DayReport("WARN", None, "hm")}, "the day sent rightly is WARN on distance: hm"),
        ({"wrong_day": DayReport("PASS", 1.609, "hm")}, "the day in the wrong unit is PASS on distance: hm"),
        ({"wrong_day": DayReport("FAIL", 1.7, "hm")}, "names factor 1.7"),
        ({"log": LogCounts(20, 20, 0, 19, Path("log"))}, "DuckDB counts 19"),
        ({"log": LogCounts(20, 18, 1, 18, Path("log"))}, "are not the 20 eligible ones"),
        ({"log": LogCounts(22, 22, 0, 22, Path("log"))}, "the client got answers to 20"),
        ({"hub_problems": ("the hub's page / answers 500",)}, "the hub's page / answers 500"),
    ],
)  # fmt: skip
def test_each_thing_that_does_not_hold_is_told_and_makes_it_not_ok(changes: dict[str, Any], told: str) -> None:
    found = summary(**changes)
    (problem,) = found.problems()
    assert told in problem
    assert found.to_dict()["ok"] is False


def test_dropped_rows_that_are_counted_are_no_problem() -> None:
    assert summary(log=LogCounts(20, 15, 5, 15, Path("log"))).problems() == []


def test_an_honest_retrain_is_to_be_released_as_version_3() -> None:
    told = {
        "options": DemoOptions(mistake="none"),
        "versions": {"1": "END", "2": "END", "3": "AVAILABLE"},
        "replays": (replay(by_version={"1": 1, "2": 1, "3": 2}),),
        "refused": [],
        "log": LogCounts(10, 10, 0, 10, Path("log")),
    }
    assert summary(**told).problems() == []
    assert summary(**{**told, "versions": {"1": "END", "2": "AVAILABLE"}}).problems() != []


def test_another_column_and_factor_are_held_to_what_was_asked() -> None:
    options = DemoOptions(skew_column="seats", skew_factor=0.5)
    day = DayReport("FAIL", 0.5, "")
    found = summary(options=options, wrong_day=day)
    assert found.problems() == []
    assert found.to_dict()["wrong_unit_day"] == {"seats": "FAIL", "factor": 0.5}
    assert found.to_dict()["clean_day"] == {"seats": "PASS"}
    assert summary(options=options).problems() != []


def test_a_kept_engine_has_no_exit_status_yet() -> None:
    assert summary(options=DemoOptions(keep=True), engine_status=None).problems() == []


@pytest.mark.parametrize("mistake", [kind.value for kind in Mistake])
def test_a_single_mistake_is_tried_as_version_3(mistake: str) -> None:
    assert DemoOptions(mistake=mistake).candidates == {3: Mistake(mistake)}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mistake": "typo"}, "use one of unit, crash, leak, none"),
        ({"skew_column": "carrier"}, "no numeric feature of a flight: use one of distance, hour, seats, humid"),
        ({"skew_factor": 1.0}, "changes no unit"),
        ({"skew_factor": -2.0}, "changes no unit"),
        ({"skew_factor": float("nan")}, "changes no unit"),
        ({"corrupt_answers": -1}, "use 0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        DemoOptions(**options)


def verdict(*gates: GateResult) -> Verdict:
    return Verdict(
        ServableId("flights", 3), "d" * 64, Outcome.FAIL, False, "No.", gates, False, None, "", "", "0", "", ""
    )  # fmt: skip


def finding(subject: str, outcome: Outcome, **more: Any) -> Finding:
    return Finding("check", subject, outcome, f"{subject} it is.", **more)


def test_a_refusal_is_the_first_gate_that_denied_and_the_finding_with_a_cause() -> None:
    kilometres = finding("distance", Outcome.FAIL, cause={"kind": "constant factor", "factor": 1.609})
    found = refusal_of(
        verdict(
            GateResult("quality", Outcome.WARN, "Hm.", (finding("auc", Outcome.WARN),)),
            GateResult("skew", Outcome.FAIL, "No.", (finding("seats", Outcome.FAIL), kilometres)),
            GateResult("robustness", Outcome.ERROR, "Neither."),
        )
    )
    assert (found.gate, found.feature, found.factor, found.sentence) == ("skew", "distance", 1.609, "No.")


def test_a_robustness_refusal_shows_the_input() -> None:
    crash = finding("unseen category", Outcome.FAIL, example={"carrier": "??"})
    found = refusal_of(verdict(GateResult("robustness", Outcome.FAIL, "It died.", (crash,))))
    assert found.to_dict() == {
        "version": 3, "gate": "robustness", "input": {"carrier": "??"}, "sentence": "It died."
    }  # fmt: skip


@pytest.mark.parametrize("activated", [True, False])
def test_its_last_words_are_a_command_that_the_readers_shell_finds(
    activated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = Path(sys.executable).with_name("tidegate")
    monkeypatch.setenv("PATH", str(beside.parent) if activated else "/usr/bin:/bin")
    folders = Folders(tmp_path)
    assert tell(summary(), folders, Addresses("", "", "", 1), Story(Console())) == 0
    said = capsys.readouterr().out
    command = "tidegate" if activated else beside
    assert f"{command} hub --config {folders.hub_config}, then open http://127.0.0.1:8600" in said
    assert "the demo's engine has ended, and the hub says so" in said
