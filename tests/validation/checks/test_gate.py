"""Checks of other packages run as gates: they see the evidence and both models' answers, and break nothing."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.world import HONEST, Draft

from tidegate_serving.admission import GateResult, Outcome, Verdict
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.evidence import Evidence
from tidegate_validation.gates import run_gates
from tidegate_validation.policy import Policy
from tidegate_validation.robustness.limits import RobustnessLimits

CHECKS = """
import os, threading
import numpy as np

def fair(request):
    east = np.array(request["held_out"]["depot"].to_pylist()) == "east"
    mine, theirs = (np.array(request[f"{who}_answers"]["probability"].to_pylist()) for who in ("candidate", "baseline"))
    gap = float(mine[east].mean() - mine[~east].mean())
    limit = request["options"].get("gap", 0.1)
    words = f"{len(mine)} answers, east gets {gap:.2f} more, {request['label']} is judged"
    outcome = "FAIL" if gap > limit else "PASS"
    same = bool(np.allclose(mine, theirs))
    found = {"check": "fair", "subject": "depot", "outcome": outcome, "sentence": words}
    return {**found, "number": gap, "cause": {"same": same}}

def quiet(request): return None
def broken(request): raise KeyError("no such column")
def endless(request): threading.Event().wait()
def leaves(request): os._exit(0)
"""
LIMITS = RobustnessLimits(load_seconds=60, call_seconds=20)
METADATA = "Metadata-Version: 2.1\nName: parcel-rules\nVersion: 1.0\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package, as far as Python can tell, that offers the checks."""
    packages = tmp_path / "packages"
    info = packages / "parcel_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (packages / "parcel_rules.py").write_text(textwrap.dedent(CHECKS))
    (info / "METADATA").write_text(METADATA)
    names = ("fair", "quiet", "broken", "endless", "leaves")
    (info / "entry_points.txt").write_text(
        "[tidegate.checks]\n" + "\n".join(f"{name} = parcel_rules:{name}" for name in names)
    )
    monkeypatch.syspath_prepend(str(packages))


def judged(tmp_path: Path, policy: str) -> Verdict:
    shelf = tmp_path / "shelf"
    world.publish(shelf, 1, Draft())
    (tmp_path / "policy.toml").write_text(policy)
    loaded = replace(Policy.load(tmp_path / "policy.toml"), robustness=LIMITS)
    held_out: pa.Table = world.parcels(600, seed=9)
    evidence = Evidence(held_out, world.LABEL, baseline=shelf / world.NAME / "1", policy=loaded)
    return run_gates(world.publish(shelf, 2, Draft(HONEST)), evidence)


def only(verdict: Verdict) -> GateResult:
    (gate,) = verdict.gates
    return gate


@pytest.mark.usefixtures("package")
def test_a_check_sees_data_and_answers_and_its_finding_decides(tmp_path: Path) -> None:
    verdict = judged(tmp_path, 'run = ["fair"]\nrequired = ["fair"]\n[checks.fair]\nrows = 500\n')
    gate = only(verdict)
    assert (gate.gate, gate.outcome) == ("fair", Outcome.FAIL)
    (finding,) = gate.findings
    assert finding.sentence.startswith("500 answers, east gets 0.1")
    assert finding.sentence.endswith("late is judged")
    assert finding.cause == {"same": True}
    assert not verdict.allowed
    assert verdict.sentence.startswith("parcels:2 is refused by the fair gate")


@pytest.mark.usefixtures("package")
def test_options_reach_the_check_and_count_in_the_configs_digest(tmp_path: Path) -> None:
    verdict = judged(tmp_path, 'run = ["fair"]\nrequired = ["fair"]\n[checks.fair.options]\ngap = 0.9\n')
    assert verdict.allowed
    assert only(verdict).findings[0].sentence.startswith("600 answers")
    assert verdict.config_digest != judged(tmp_path / "b", 'run = ["quiet"]\nrequired = ["quiet"]\n').config_digest


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", "raised KeyError: 'no such column'"),
        ("endless", "gave no answer within 1.5 s"),
        ("leaves", "ended with exit status 0 and gave no answer"),
    ],
)
def test_a_check_that_fails_to_check_is_an_error_and_no_pass(tmp_path: Path, name: str, words: str) -> None:
    policy = f'run = ["{name}"]\nrequired = ["{name}"]\n[checks.{name}]\nseconds = 1.5\nanswers = false\n'
    verdict = judged(tmp_path, policy)
    gate = only(verdict)
    assert gate.outcome is Outcome.ERROR
    assert words in gate.sentence
    assert "mend the check" in gate.sentence
    assert not verdict.allowed


@pytest.mark.usefixtures("package")
def test_a_check_without_objections_passes(tmp_path: Path) -> None:
    verdict = judged(tmp_path, 'run = ["quiet"]\nrequired = ["quiet"]\n')
    assert only(verdict).outcome is Outcome.PASS
    assert "quiet objects to nothing" in only(verdict).sentence


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ('run = ["fairness"]\n', "gate 'fairness' in run"),
        ("[checks.fair]\nsecond = 5\n", "checks.fair has an unknown key 'second': did you mean seconds"),
        ("[checks.fair]\nseconds = 0\n", "0 seconds"),
        ('[checks.fair]\nrows = "many"\n', "checks.fair: rows is 'many': use a whole number"),
        ("[checks.fair.options]\nday = 2013-01-01\n", "checks.fair: options hold what JSON cannot"),
    ],
)
def test_a_policy_that_asks_for_nonsense_is_refused_by_name(tmp_path: Path, policy: str, words: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(policy)
    with pytest.raises(InvalidInput, match=words):
        Policy.load(path)


def test_a_check_that_is_not_installed_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('run = ["fair"]\n')
    with pytest.raises(InvalidInput, match="install the package"):
        Policy.load(path)
