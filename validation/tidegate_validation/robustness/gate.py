"""The robustness gate: loads the version in a sandbox and tries to break it, stage by stage.

Add a stage to `_STAGES`: a function that takes the `Examination`, asks the version through it and reports findings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.manifest import Manifest
from tidegate_validation.case import Case, Version
from tidegate_validation.progress import Progress, working
from tidegate_validation.robustness.examination import Examination, OutOfTime
from tidegate_validation.robustness.failing_inputs import FailingInputs, Origin
from tidegate_validation.robustness.input_domain import InputDomain
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.stages import (
    batches,
    beside_baseline,
    concurrency,
    edges,
    ending,
    golden,
    half_precision,
    idle,
    latency,
    later,
    log,
    new_rows,
    recorded,
    repetition,
    restart,
)
from tidegate_validation.sandbox.answer import AnswerKind
from tidegate_validation.sandbox.examples import default_signature, example_of, groups_of
from tidegate_validation.sandbox.session import Session

_ENDING_SECONDS = 1.0
_STAGES: Sequence[Callable[[Examination], None]] = (
    golden.real_data,
    recorded.recorded,
    repetition.repetition,
    latency.latency,
    log.log,
    beside_baseline.beside_baseline,
    idle.idle,
    new_rows.new_rows,
    batches.batches,
    concurrency.threads,
    edges.boundaries,
    edges.malformed,
    half_precision.half_precision,
    later.later,
    restart.restart,
)
"""In this order, after the version was loaded and answered ordinary rows; none runs once too many processes died."""


def examine(case: Case, domains: Mapping[str, InputDomain], limits: RobustnessLimits) -> list[Finding]:
    """All findings about one version, in the order of the stages.

    Ends within `limits.total_seconds`, whatever the version does. Raises InvalidInput where the data cannot be sent to
    it at all, Unavailable where the sandbox cannot be started.
    """
    candidate, before = case.candidate, case.baseline
    name, signature = default_signature(candidate.manifest)
    end = time.monotonic() + limits.total_seconds
    data, *other_sizes = groups_of(signature, case.held_out)
    with Session(candidate.directory, limits, name, case.probe) as session:
        with ExitStack() as stack:
            baseline, baseline_inputs = None, frozenset[str]()
            if before is not None:
                known, its_signature = default_signature(before.manifest)
                baseline = stack.enter_context(Session(before.directory, limits, known, case.probe))
                baseline_inputs = frozenset(its_signature.input_names)
            examination = Examination(
                session=session,
                baseline=baseline,
                signature=signature,
                baseline_inputs=baseline_inputs,
                limits=limits,
                domains=domains,
                data=data,
                other_sizes=other_sizes,
                failing_inputs=FailingInputs(case.report, _origin(candidate, limits, name)),
                end=end,
                golden=case.golden,
                signatures=candidate.manifest.signatures,
                report_folder=case.report,
            )
            examination.failing_inputs.remove_earlier()
            with working(case.progress, "robustness", len(_STAGES), limits.total_seconds):
                _in_time(examination, lambda: _stages(examination, candidate.manifest, case.progress))
        examination.end = max(end, time.monotonic() + _ENDING_SECONDS)
        examination.stage = "unloading"
        _in_time(examination, lambda: ending.unloading(examination))
    golden.output_range(examination)
    ending.conduct(examination, candidate.manifest, candidate.directory)
    ending.sandbox_limits(examination)
    return examination.findings


def _stages(examination: Examination, manifest: Manifest, progress: Progress) -> None:
    if not _load(examination):
        return
    examination.stage = "golden"
    if not golden.golden(examination, example_of(examination.signature, manifest.example)):
        return
    if latency.refused_as_slow(examination):
        return
    for number, stage in enumerate(_STAGES):
        if not examination.exhausted:
            examination.stage = stage.__name__
            progress.at(examination.stage.replace("_", " "), number)
            stage(examination)


def _in_time(examination: Examination, run: Callable[[], None]) -> None:
    try:
        run()
    except OutOfTime:
        limit = examination.limits.total_seconds
        sentence = f"the gate's {limit:g} s were over in the stage {examination.stage!r}; what follows is untried"
        examination.report("time", examination.stage, Outcome.INCONCLUSIVE, sentence, limit=limit)
        latency.report_if_slow(examination)


def _origin(candidate: Version, limits: RobustnessLimits, signature: str) -> Origin:
    return Origin(
        directory=candidate.directory.absolute(),
        servable=str(candidate.manifest.id),
        manifest_digest=candidate.digest,
        signature=signature,
        limits=limits,
    )


def _load(examination: Examination) -> bool:
    begun = time.monotonic()
    answer = examination.session.load(examination.time_for(examination.limits.load_seconds))
    seconds = time.monotonic() - begun
    if answer.kind is AnswerKind.OUTPUTS:
        examination.report("load", "version", Outcome.PASS, f"loads in {seconds:.2g} s", number=seconds)
        return True
    if answer.kind is AnswerKind.HUNG and time.monotonic() >= examination.end:
        raise OutOfTime(examination.stage)
    words = {
        AnswerKind.NOT_LOADED: f"does not load: {answer.words}",
        AnswerKind.HUNG: f"does not load: it {answer.words}",
    }.get(answer.kind, f"takes its process down while it loads: it {answer.words}")
    log = {"log": answer.log} if answer.log else None
    examination.report("load", "version", Outcome.FAIL, f"the version {words}", example=log)
    return False
