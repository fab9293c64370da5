"""The gates, by name, and their run over one version: each says what it found, and `decision` makes the verdict.

A gate is a function from a case and the policy to a gate result; what it reads and whom it asks is here, how it judges
is in its folder. To add one, put its function into GATES and its thresholds, under the same name, into the policy.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict
from tidegate_serving.contract.errors import NotFound, TidegateError
from tidegate_serving.contract.repository import expectations_directory
from tidegate_validation.case import DATA_DOCS, Case
from tidegate_validation.checks.gate import run_user_check
from tidegate_validation.checks.installed import installed_checks
from tidegate_validation.checks.rule import CheckRule
from tidegate_validation.decision import Subject, decide
from tidegate_validation.evidence import Evidence, open_case, open_policy
from tidegate_validation.expectations import DataSet, check_data, read_suites
from tidegate_validation.outcomes import gate_result
from tidegate_validation.policy import Policy
from tidegate_validation.progress import SILENT, Progress, working
from tidegate_validation.quality.data.labels import check_label
from tidegate_validation.quality.gate import judge_quality
from tidegate_validation.robustness.gate import examine
from tidegate_validation.robustness.input_domain import input_domains
from tidegate_validation.sandbox.examples import default_signature
from tidegate_validation.skew.release import Evidence as SkewEvidence
from tidegate_validation.skew.release import release_findings
from tidegate_validation.statistics.relation import told_apart
from tidegate_validation.statistics.window import Window, log_window, table_window

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

Gate = Callable[[Case, Policy], GateResult]

PROFILE = "profile"
"""The subject of the finding of a gate that needs the training profile and got none."""


def run_gates(
    directory: Path,
    evidence: Evidence,
    *,
    report: Path | None = None,
    probe: Sequence[str] | None = None,
    progress: Progress = SILENT,
) -> Verdict:
    """Has the policy's gates judge the version in `directory`; the verdict is not signed.

    `report` is the directory for Data Docs and failing inputs, `probe` overrides the command that loads a version.
    NotFound, Tampered or InvalidInput for a version or evidence that cannot be judged at all. Whatever goes wrong
    inside a gate is that gate's ERROR.
    """
    policy = open_policy(evidence)
    case = open_case(directory, evidence, report=report, probe=probe, progress=progress)
    if "quality" in policy.run:
        check_label(case.held_out, case.label)
    results = []
    with working(progress, f"judge {case.candidate.manifest.id}", parts=len(policy.run)):
        for place, name in enumerate(policy.run):
            progress.at(name, place)
            results.append(_run(name, case, policy))
    baseline = case.baseline.digest if case.baseline is not None else None
    subject = Subject(case.candidate.manifest.id, case.candidate.digest, baseline, table_digest(case.held_out))
    return decide(subject, results, policy)


def table_digest(table: pa.Table) -> str:
    """SHA-256 in hex of the table's schema and values."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as writer:
        writer.write_table(table.replace_schema_metadata(None).combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _run(name: str, case: Case, policy: Policy) -> GateResult:
    gate = GATES.get(name) or partial(user_check, name)
    started = time.monotonic()
    try:
        result = gate(case, policy)
    except Exception as error:  # whatever it is, it is neither a pass nor the candidate's fault
        told = _told(name, error)
        logger.error("the %s gate could not finish", name, exc_info=None if told else error)
        reason = told or f"{type(error).__name__}: {error}"
        result = GateResult(name, Outcome.ERROR, f"the {name} gate could not finish: {reason}", ())
    return GateResult(result.gate, result.outcome, result.sentence, result.findings, time.monotonic() - started)


def _told(name: str, error: Exception) -> str:
    """What says all in words for who asked, which a traceback would hide; empty where only a traceback does."""
    if isinstance(error, TidegateError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name and name in GATES:
        package = error.name.partition(".")[0]
        return f"it needs {package}, which is not installed: run `pip install 'tidegate[validate]'`"
    return ""


def expectations(case: Case, policy: Policy) -> GateResult:
    """Holds the held-out data against the candidate's training, and that against the baseline's."""
    own, candidate = read_suites(expectations_directory(case.candidate.directory)), case.candidate.profile()
    if candidate is None and own is None:
        return gate_result("expectations", [_no_profile("expectations", case)], "")
    data_sets = [DataSet("held-out data", case.held_out, candidate, own)]
    if case.training is not None and case.baseline is not None and (before := case.baseline.profile()) is not None:
        theirs = read_suites(expectations_directory(case.baseline.directory))
        data_sets.append(DataSet("training data", case.training, before, theirs))
    docs = case.report / DATA_DOCS if case.report is not None else None
    findings = check_data(data_sets, policy.expectations, docs)
    met = [finding.sentence for finding in findings if finding.check == "expectations"]
    return gate_result("expectations", findings, "; ".join(met))


def quality(case: Case, policy: Policy) -> GateResult:
    """Compares the candidate's answers with the baseline's, and mistrusts them."""
    findings = judge_quality(case, policy.robustness, policy.quality)
    return gate_result("quality", findings, findings[0].sentence)


def robustness(case: Case, policy: Policy) -> GateResult:
    """Probes the candidate in a sandbox."""
    signature = default_signature(case.candidate.manifest)[1]
    with _log(case, policy) as window:
        domains = input_domains(signature, case.candidate.profile(), case.held_out, window)
    findings = examine(case, domains, policy.robustness)
    passed = "loads, answers real data and odd inputs alike, refuses what is malformed, and stays alive"
    return gate_result("robustness", findings, passed)


def skew(case: Case, policy: Policy) -> GateResult:
    """Holds the candidate's training against what is served, or against held-out data where nothing was."""
    candidate = case.candidate.profile()
    if candidate is None:
        return gate_result("skew", [_no_profile("skew", case)], "")
    baseline = case.baseline.profile() if case.baseline is not None else None
    with _log(case, policy) as served, ExitStack() as stack:
        if served is not None and served.rows >= policy.skew.least_rows:
            seen, words = SkewEvidence(served, served=True), f"{served.rows} served examples"
        else:
            like, time = candidate.rows_per_block, candidate.event_time
            taken = {name for profile in (candidate, baseline) if profile for name in (*profile.features, time) if name}
            rows = told_apart(case.held_out, taken)
            held_out = stack.enter_context(table_window(rows, event_time=time, like=like))
            seen, words = SkewEvidence(held_out, served=False), f"{held_out.rows} held-out examples, for want of a log"
        findings = release_findings(candidate, baseline, seen, policy.skew)
    return gate_result("skew", findings, f"was trained on the world that is seen in {words}")


def user_check(name: str, case: Case, policy: Policy) -> GateResult:
    """Runs the check that an installed package offers under `name`."""
    target = installed_checks().get(name)
    if target is None:
        raise NotFound(f"no installed package offers a check {name!r}: install it, or take it out of the policy's run")
    return run_user_check(name, target, case, policy.robustness, policy.checks.get(name, CheckRule()))


GATES: Mapping[str, Gate] = {
    "expectations": expectations,
    "quality": quality,
    "robustness": robustness,
    "skew": skew,
}


def _no_profile(gate: str, case: Case) -> Finding:
    sentence = (
        f"{case.candidate.manifest.id} has no training profile, so nothing can be said: publish it with its training "
        "data"
    )
    return Finding(gate, PROFILE, Outcome.INCONCLUSIVE, sentence)


@contextmanager
def _log(case: Case, policy: Policy) -> Iterator[Window | None]:
    """What the serving version was sent, or any version where that is little; None without a log."""
    if case.log_root is None:
        yield None
        return
    name = case.candidate.manifest.id.name
    served = case.baseline.manifest.id.version if case.baseline is not None else None
    with log_window(case.log_root, model=name, version=served) as window:
        if window.rows >= policy.skew.least_rows or served is None:
            yield window
            return
    with log_window(case.log_root, model=name, version=None) as window:
        yield window
