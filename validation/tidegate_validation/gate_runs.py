"""Each gate as a function from the material of one validation to a gate result: what to read, whom to ask.

`gates` calls these and turns whatever they raise into ERROR; the judging itself is in the gates' own folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tidegate_serving.admission.verdict import Finding, GateResult, Outcome
from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.repository import expectations_directory, profile_directory
from tidegate_validation.checks.gate import CheckSubject, run_user_check
from tidegate_validation.checks.installed import installed_checks
from tidegate_validation.checks.rule import CheckRule
from tidegate_validation.expectations import DataSet, check_data, read_suites
from tidegate_validation.outcomes import gate_result
from tidegate_validation.policy import Policy
from tidegate_validation.quality.gate import Model, QualitySubject, judge_quality
from tidegate_validation.robustness.gate import RobustnessSubject, default_signature, examine
from tidegate_validation.robustness.world import facts_of
from tidegate_validation.skew.release import Evidence, release_findings
from tidegate_validation.statistics.profile import Profile, read_profile
from tidegate_validation.statistics.window import Window, log_window, table_window

DATA_DOCS = "data-docs"


@dataclass(frozen=True, slots=True)
class Material:
    """Everything a gate may look at; see `ValidationRequest` for the meaning of each."""

    candidate: Path
    manifest: Manifest
    baseline: Path | None
    baseline_manifest: Manifest | None
    held_out: Any
    training: Any | None
    label: str
    log_root: Path | None
    serving_model: str
    policy: Policy
    report: Path | None
    entity: str | None
    probe: Sequence[str] | None

    def profile(self) -> Profile | None:
        """The candidate's training profile, None where it was published without one."""
        return _profile(self.candidate)

    def baseline_profile(self) -> Profile | None:
        """The baseline's training profile, None where there is none."""
        return _profile(self.baseline) if self.baseline is not None else None


def _profile(directory: Path) -> Profile | None:
    try:
        return read_profile(profile_directory(directory))
    except NotFound:
        return None


def expectations(material: Material) -> GateResult:
    """Holds the held-out data against the candidate's training, and that against the baseline's."""
    candidate, baseline = material.profile(), material.baseline_profile()
    own = read_suites(expectations_directory(material.candidate))
    if candidate is None and own is None:
        return gate_result("expectations", [_no_profile("expectations", material)], "")
    data_sets = [DataSet("held-out data", material.held_out, candidate, own)]
    if material.training is not None and material.baseline is not None and baseline is not None:
        theirs = read_suites(expectations_directory(material.baseline))
        data_sets.append(DataSet("training data", material.training, baseline, theirs))
    docs = material.report / DATA_DOCS if material.report is not None else None
    findings = check_data(data_sets, material.policy.expectations, docs)
    met = [finding.sentence for finding in findings if finding.check == "expectations"]
    return gate_result("expectations", findings, "; ".join(met))


def quality(material: Material) -> GateResult:
    """Compares the candidate's answers with the baseline's, and mistrusts them."""
    baseline = None
    if material.baseline is not None and material.baseline_manifest is not None:
        baseline = Model.of(material.baseline, material.baseline_manifest)
    subject = QualitySubject(
        candidate=Model.of(material.candidate, material.manifest),
        baseline=baseline,
        held_out=material.held_out,
        label=material.label,
        entity=material.entity,
        limits=material.policy.robustness,
        probe=material.probe,
        training=material.training,
    )
    findings = judge_quality(subject, material.policy.quality)
    return gate_result("quality", findings, findings[0].sentence)


def robustness(material: Material) -> GateResult:
    """Probes the candidate in a sandbox."""
    signature = default_signature(material.manifest)[1]
    with _log(material) as window:
        facts = facts_of(signature, material.profile(), material.held_out, window)
    subject = RobustnessSubject(
        candidate=material.candidate,
        manifest=material.manifest,
        baseline=material.baseline,
        baseline_manifest=material.baseline_manifest,
        held_out=material.held_out,
        facts=facts,
        probe=material.probe,
        report=material.report,
    )
    findings = examine(subject, material.policy.robustness)
    passed = "loads, answers real data and odd inputs alike, refuses what is malformed, and stays alive"
    return gate_result("robustness", findings, passed)


def skew(material: Material) -> GateResult:
    """Holds the candidate's training against what is served, or against held-out data where nothing was."""
    candidate, baseline = material.profile(), material.baseline_profile()
    if candidate is None:
        return gate_result("skew", [_no_profile("skew", material)], "")
    rule = material.policy.skew
    with _log(material) as served, ExitStack() as stack:
        if served is not None and served.rows >= rule.least_rows:
            evidence, words = Evidence(served, served=True), f"{served.rows} served examples"
        else:
            held_out = stack.enter_context(table_window(material.held_out, event_time=candidate.event_time))
            evidence, words = Evidence(held_out, served=False), f"{held_out.rows} held-out examples, for want of a log"
        findings = release_findings(candidate, baseline, evidence, rule)
    return gate_result("skew", findings, f"was trained on the world that is seen in {words}")


def _no_profile(gate: str, material: Material) -> Finding:
    sentence = (
        f"{material.manifest.id} has no training profile, so nothing can be said: publish it with its training data"
    )
    return Finding(gate, "profile", Outcome.INCONCLUSIVE, sentence)


@contextmanager
def _log(material: Material) -> Iterator[Window | None]:
    """What the serving version was sent, or any version where that is little; None without a log."""
    if material.log_root is None:
        yield None
        return
    served = material.baseline_manifest.id.version if material.baseline_manifest else None
    with log_window(material.log_root, model=material.serving_model, version=served) as window:
        if window.rows >= material.policy.skew.least_rows or served is None:
            yield window
            return
    with log_window(material.log_root, model=material.serving_model, version=None) as window:
        yield window


def user_check(name: str, material: Material) -> GateResult:
    """Runs the check that an installed package offers under `name`."""
    subject = CheckSubject(
        candidate=material.candidate,
        manifest=material.manifest,
        baseline=material.baseline,
        baseline_manifest=material.baseline_manifest,
        held_out=material.held_out,
        training=material.training,
        label=material.label,
        limits=material.policy.robustness,
        probe=material.probe,
    )
    return run_user_check(name, _target(name), subject, material.policy.checks.get(name, CheckRule()))


def _target(name: str) -> str:
    found = installed_checks()
    if name not in found:
        raise NotFound(f"no installed package offers a check {name!r}: install it, or take it out of the policy's run")
    return found[name]


def gate_run(name: str) -> Callable[[Material], GateResult]:
    """The gate of that name, ours or a user's."""
    return GATE_RUNS.get(name) or partial(user_check, name)


GATE_RUNS: Mapping[str, Callable[[Material], GateResult]] = {
    "expectations": expectations,
    "quality": quality,
    "robustness": robustness,
    "skew": skew,
}
