"""The robustness gate: loads the version in a sandbox and tries to break it, stage by stage.

`gates` hands in directories, data and limits; a gate result comes back whose findings carry the inputs that did it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.admission.verdict import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, digest
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature
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


@dataclass(frozen=True, slots=True)
class RobustnessSubject:
    """The version to examine and, where there is one, the version that serves now; `held_out` is a pyarrow.Table.

    Failing inputs are kept under `report`, if given.
    """

    candidate: Path
    manifest: Manifest
    baseline: Path | None
    baseline_manifest: Manifest | None
    held_out: Any
    facts: dict[str, InputFacts]
    probe: Sequence[str] | None = None
    report: Path | None = None


def examine(subject: RobustnessSubject, limits: RobustnessLimits) -> list[Finding]:
    """All findings about one version, in the order of the stages.

    Ends within `limits.total_seconds`, whatever the version does. Raises InvalidInput where the data cannot be sent to
    it at all, Unavailable where the sandbox cannot be started.
    """
    name, signature = default_signature(subject.manifest)
    end = time.monotonic() + limits.total_seconds
    data = examples_of(signature, subject.held_out)
    with Session(probe_command(subject.candidate, subject.probe, limits), limits, name) as session:
        with _baseline(subject, limits) as baseline:
            examination = Examination(
                session=session,
                baseline=baseline if subject.baseline else None,
                signature=signature,
                baseline_inputs=_inputs(subject.baseline_manifest),
                limits=limits,
                facts=subject.facts,
                data=data,
                keeper=Keeper(subject.report, _origin(subject, limits)),
                end=end,
            )
            examination.keeper.forget()
            _in_time(examination, lambda: _stages(examination, subject))
        examination.end = max(end, time.monotonic() + _ENDING_SECONDS)
        examination.stage = "unloading"
        _in_time(examination, lambda: ending.unloading(examination))
    ending.conduct(examination, subject.manifest, subject.candidate)
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


def _stages(examination: Examination, subject: RobustnessSubject) -> None:
    if not _load(examination):
        return
    examination.stage = "golden"
    if not golden.golden(examination, example_of(examination.signature, subject.manifest.example)):
        return
    stages: tuple[Callable[[Examination], None], ...] = (
        golden.real_data,
        repetition.repetition,
        batches.batches,
        concurrency.threads,
        edges.boundaries,
        edges.malformed,
        latency.latency,
    )
    for stage in stages:
        if not examination.exhausted:
            examination.stage = stage.__name__
            stage(examination)


def _in_time(examination: Examination, run: Callable[[], None]) -> None:
    try:
        run()
    except OutOfTime:
        limit = examination.limits.total_seconds
        sentence = f"the gate's {limit:g} s were over in the stage {examination.stage!r}; what follows is untried"
        examination.report("time", examination.stage, Outcome.INCONCLUSIVE, sentence, limit=limit)


def _baseline(subject: RobustnessSubject, limits: RobustnessLimits) -> Session:
    manifest = subject.baseline_manifest or subject.manifest
    command = probe_command(subject.baseline or subject.candidate, subject.probe, limits)
    return Session(command, limits, default_signature(manifest)[0])


def _inputs(manifest: Manifest | None) -> frozenset[str]:
    return frozenset(default_signature(manifest)[1].input_names) if manifest else frozenset()


def _origin(subject: RobustnessSubject, limits: RobustnessLimits) -> Origin:
    directory = subject.candidate.absolute()
    return Origin(
        directory=directory,
        servable=str(subject.manifest.id),
        manifest_digest=digest((directory / FILE_NAME).read_bytes()),
        signature=default_signature(subject.manifest)[0],
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
