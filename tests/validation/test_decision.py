"""The decision: which outcomes allow, what a policy may change, and that nothing unknown gets in."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tidegate_serving.admission import Finding, GateResult, Outcome, OverrideRule, Verdict
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.decision import Subject, decide
from tidegate_validation.gates import GATES as RUNNABLE
from tidegate_validation.outcomes import gate_result, worst
from tidegate_validation.policy import GATE_NAMES, Policy

SUBJECT = Subject(ServableId("m", 3), "a" * 64, "b" * 64, "c" * 64)


def results(**outcomes: Outcome) -> list[GateResult]:
    return [GateResult(gate, outcomes.get(gate, Outcome.PASS), f"{gate} says so") for gate in GATE_NAMES]


def test_every_gate_that_has_thresholds_in_the_policy_can_run() -> None:
    assert tuple(RUNNABLE) == GATE_NAMES == ("expectations", "quality", "robustness", "skew")


@pytest.mark.parametrize("gate", GATE_NAMES)
@pytest.mark.parametrize("outcome", list(Outcome))
def test_pass_and_warn_allow_and_everything_else_denies(gate: str, outcome: Outcome) -> None:
    verdict = decide(SUBJECT, results(**{gate: outcome}), Policy())
    assert verdict.allowed is (outcome in (Outcome.PASS, Outcome.WARN))
    assert verdict.outcome is outcome
    assert verdict.denied_by == (() if verdict.allowed else (gate,))
    if not verdict.allowed:
        assert verdict.sentence == f"m:3 is refused by the {gate} gate: {gate} says so"


@pytest.mark.parametrize("gate", GATE_NAMES)
def test_a_required_gate_that_did_not_run_denies(gate: str) -> None:
    verdict = decide(SUBJECT, [one for one in results() if one.gate != gate], Policy())
    assert not verdict.allowed
    assert verdict.outcome is Outcome.ERROR
    assert verdict.denied_by == (gate,)
    assert f"the {gate} gate is required and did not run" in verdict.sentence
    lenient = Policy(required=tuple(one for one in GATE_NAMES if one != gate))
    assert decide(SUBJECT, [one for one in results() if one.gate != gate], lenient).allowed


def test_a_policy_may_let_an_outcome_of_one_gate_pass_by_name() -> None:
    policy = Policy(allow={"quality": (Outcome.INCONCLUSIVE,)})
    assert decide(SUBJECT, results(quality=Outcome.INCONCLUSIVE), policy).allowed
    assert not decide(SUBJECT, results(skew=Outcome.INCONCLUSIVE), policy).allowed
    assert not decide(SUBJECT, results(quality=Outcome.FAIL), policy).allowed


def test_nothing_at_all_denies() -> None:
    assert not decide(SUBJECT, [], Policy()).allowed


def test_the_gate_that_explains_best_gives_the_reason() -> None:
    every = decide(SUBJECT, results(**dict.fromkeys(GATE_NAMES, Outcome.FAIL)), Policy())
    assert "refused by the robustness gate" in every.sentence
    two = decide(SUBJECT, results(quality=Outcome.FAIL, skew=Outcome.FAIL), Policy())
    assert "refused by the skew gate" in two.sentence
    graver = decide(SUBJECT, results(quality=Outcome.FAIL, robustness=Outcome.INCONCLUSIVE), Policy())
    assert "refused by the quality gate" in graver.sentence


def test_a_first_version_is_marked() -> None:
    first = decide(Subject(SUBJECT.id, "a" * 64, None, "c" * 64), results(), Policy())
    assert first.first
    assert first.baseline is None
    assert "as a first version" in first.sentence
    assert not decide(SUBJECT, results(), Policy()).first


def test_verdicts_survive_the_way_through_json() -> None:
    verdict = decide(SUBJECT, results(skew=Outcome.WARN), Policy())
    assert Verdict.from_dict(verdict.to_dict(), "here") == verdict
    assert verdict.expires_at > verdict.issued_at


def test_the_gravest_finding_speaks_for_its_gate() -> None:
    findings = [Finding("c", "s", outcome, outcome.value.lower()) for outcome in (Outcome.WARN, Outcome.FAIL)]
    result = gate_result("skew", findings, "all is well")
    assert (result.outcome, result.sentence) == (Outcome.FAIL, "fail")
    assert gate_result("skew", [], "all is well").sentence == "all is well"
    assert worst([Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.ERROR]) is Outcome.ERROR


def test_a_policy_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        'run = ["quality", "robustness"]\nrequired = ["quality"]\nvalid_days = 7\n'
        '[allow]\nquality = ["INCONCLUSIVE"]\n'
        '[quality]\nmargin = 0.02\ntrusted = ["age"]\n[robustness]\ncall_seconds = 5\n[skew]\nalpha = 0.01\n'
        '[[override]]\nkeys = ["alice", "3f0c9a5be1d27714"]\ngates = ["quality"]\nmost_hours = 4\n'
    )
    policy = Policy.load(path)
    assert policy.run == ("quality", "robustness")
    assert policy.quality.margin == 0.02
    assert policy.quality.trusted == ("age",)
    assert policy.robustness.call_seconds == 5.0
    assert policy.allow == {"quality": (Outcome.INCONCLUSIVE,)}
    assert policy.digest() != Policy().digest()
    assert policy.override == (OverrideRule(("alice", "3f0c9a5be1d27714"), ("quality",), ("INCONCLUSIVE",), 4.0),)
    assert Policy.load(None) == Policy()


def test_the_policy_in_the_docs_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
    (text,) = [block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[quality]" in block]
    policy = Policy.from_dict(tomllib.loads(text), where="policy.md")
    assert policy.override == (OverrideRule(("alice",), ("quality",), ("INCONCLUSIVE",), 8.0),)
    assert policy.quality.margin == 0.005


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("strict = true", "unknown key 'strict': known are run, required"),
        ("[quality]\nmargins = 1", "quality has an unknown key 'margins': did you mean margin"),
        ("[quality]\nmargin = 'much'", "quality: margin is 'much': use a finite number"),
        ("[quality]\nmargin = '0.1'", "quality: margin is '0.1': use a finite number"),
        ("[quality]\ntrusted = 'age'", "quality: trusted is 'age': use a list"),
        ("[quality]\nexponential_gain = 1", "quality: exponential_gain is 1: use true or false"),
        ("[robustness]\nmax_batch = 1.5", "robustness: max_batch is 1.5: use a whole number"),
        ("[robustness]\ncall_seconds = 0", "robustness: call_seconds is 0.0: it must be above 0"),
        ("run = ['beauty']", "gate 'beauty'"),
        ("[allow]\nbeauty = ['WARN']", "gate 'beauty'"),
        ("[allow]\nskew = ['MAYBE']", "allow.skew is 'MAYBE': use PASS, WARN"),
        ("skew = 3", "skew is 3: use a table"),
        ("override = 3", "override is 3: use a list"),
        ("[[override]]\nkeys = ['a']", "override number 1 lacks the key 'gates'"),
        (
            "[[override]]\nkeys = []\ngates = ['skew']",
            "override number 1: keys is \\[\\]: it must be a list of at least one text",
        ),
        ("[[override]]\nkeys = ['a']\ngates = ['beauty']", "gate 'beauty'"),
        ("[[override]]\nkeys = ['a']\ngates = ['skew']\noutcomes = ['PASS']", "outcome 'PASS'"),
        ("[[override]]\nkeys = ['a']\ngates = ['skew']\nmost_hours = 0", "most_hours .* above 0"),
        ("[[override]]\nkeys = ['a']\ngates = ['skew']\nhours = 1", "override number 1 has an unknown key 'hours'"),
        ("[checks.fairness]\nseconds = 1", "gate 'fairness' in checks"),
        ("run = [", "is not TOML"),
    ],
)
def test_a_policy_with_a_mistake_is_refused_naming_it(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=words):
        Policy.load(path)
    with pytest.raises(NotFound, match="check the path"):
        Policy.load(tmp_path / "none.toml")
