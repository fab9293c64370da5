"""The robustness gate: loads the version in a sandbox and tries to break it, stage by stage.

`gates` hands in directories, data and limits; a gate result comes back whose findings carry the inputs that did it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tidegate_serving.admission.verdict import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature
from tidegate_validation.case import Case, Version
from tidegate_validation.progress import Progress, working
from tidegate_validation.robustness.answer import AnswerKind
from tidegate_validation.robustness.examination import Examination, OutOfTime
from tidegate_validation.robustness.examples import example_of, examples_of
from tidegate_validation.robustness.failing_input import Origin
from tidegate_validation.robustness.keeper import Keeper
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.session import Session, probe_command
from tidegate_validation.robustness.stages import batches, concurrency, edges, ending, golden, latency, repetition
from tidegate_validation.robustness.world import InputFacts

_ENDING_SECONDS = 1.0
_STAGES: Sequence[Callable[[Examination], None]] = (
    golden.real_data,
    repetition.repetition,
    batches.batches,
    concurrency.threads,
    edges.boundaries,
    edges.malformed,
    latency.latency,
)


def examine(case: Case, facts: dict[str, InputFacts], limits: RobustnessLimits) -> list[Finding]:
    """All findings about one version, in the order of the stages.

    Ends within `limits.total_seconds`, whatever the version does. Raises InvalidInput where the data cannot be sent to
    it at all, Unavailable where the sandbox cannot be started.
    """
    candidate, before = case.candidate, case.baseline
    name, signature = default_signature(candidate.manifest)
    end = time.monotonic() + limits.total_seconds
    data = examples_of(signature, case.held_out)
    with Session(probe_command(candidate.directory, case.probe, limits), limits, name) as session:
        with _baseline(case, limits) as baseline:
            examination = Examination(
                session=session,
                baseline=baseline if before else None,
                signature=signature,
                baseline_inputs=_inputs(before),
                limits=limits,
                facts=facts,
                data=data,
                keeper=Keeper(case.report, _origin(candidate, limits)),
                end=end,
            )
            examination.keeper.forget()
            with working(case.progress, "robustness", len(_STAGES), limits.total_seconds):
                _in_time(examination, lambda: _stages(examination, candidate.manifest, case.progress))
        examination.end = max(end, time.monotonic() + _ENDING_SECONDS)
        examination.stage = "unloading"
        _in_time(examination, lambda: ending.unloading(examination))
    ending.conduct(examination, candidate.manifest, candidate.directory)
    ending.sandbox(examination)
    return examination.findings


def default_signature(manifest: Manifest) -> tuple[str, Signature]:
    """Name and signature that are judged: `serving_default`, else the first. InvalidInput for one without rows."""
    name = SERVING_DEFAULT if SERVING_DEFAULT in manifest.signatures else next(iter(manifest.signatures))
    signature = manifest.signatures[name]
    if signature.first_axis is FirstAxis.FREE:
        raise InvalidInput(
            f"signature {name!r} of {manifest.id} takes no rows (its first axis is 'free'), and gates judge rows: give "
            f"the model a signature {SERVING_DEFAULT!r} whose first axis is the batch"
        )
    return name, signature


def _stages(examination: Examination, manifest: Manifest, progress: Progress) -> None:
    if not _load(examination):
        return
    examination.stage = "golden"
    if not golden.golden(examination, example_of(examination.signature, manifest.example)):
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


def _baseline(case: Case, limits: RobustnessLimits) -> Session:
    version = case.baseline or case.candidate
    command = probe_command(version.directory, case.probe, limits)
    return Session(command, limits, default_signature(version.manifest)[0])


def _inputs(version: Version | None) -> frozenset[str]:
    return frozenset(default_signature(version.manifest)[1].input_names) if version else frozenset()


def _origin(candidate: Version, limits: RobustnessLimits) -> Origin:
    return Origin(
        directory=candidate.directory.absolute(),
        servable=str(candidate.manifest.id),
        manifest_digest=candidate.digest,
        signature=default_signature(candidate.manifest)[0],
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
