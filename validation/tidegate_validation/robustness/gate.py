"""The robustness gate: loads the version in a sandbox and tries to break it, stage by stage.

`gates` hands in directories, data and limits; a gate result comes back whose findings carry the inputs that did it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import Tampered
from tidegate_serving.contract.manifest import Manifest, verify_files
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature
from tidegate_serving.contract.verdict import Finding, Outcome
from tidegate_validation.robustness import stages
from tidegate_validation.robustness.answer import AnswerKind
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.examples import example_of, examples_of
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.session import Session, probe_command
from tidegate_validation.robustness.world import InputFacts


@dataclass(frozen=True, slots=True)
class RobustnessSubject:
    """The version to examine and, where there is one, the version that serves now; `held_out` is a pyarrow.Table."""

    candidate: Path
    manifest: Manifest
    baseline: Path | None
    baseline_manifest: Manifest | None
    held_out: Any
    facts: dict[str, InputFacts]
    probe: Sequence[str] | None = None


def examine(subject: RobustnessSubject, limits: RobustnessLimits) -> list[Finding]:
    """All findings about one version. Raises InvalidInput where the data cannot be sent to it at all."""
    name, signature = default_signature(subject.manifest)
    command = probe_command(subject.candidate, subject.probe, limits)
    data = examples_of(signature, subject.held_out)
    with Session(command, limits, name) as session, _baseline(subject, limits) as baseline:
        examination = Examination(
            session=session,
            baseline=baseline if subject.baseline else None,
            signature=signature,
            baseline_inputs=_inputs(subject.baseline_manifest),
            limits=limits,
            facts=subject.facts,
            data=data,
        )
        if _load(examination) and stages.golden(examination, example_of(signature, subject.manifest.example)):
            for stage in (
                stages.real_data,
                stages.boundaries,
                stages.malformed,
                stages.batches,
                stages.repetition,
            ):
                if not examination.exhausted:
                    stage(examination)
        _latency(examination)
    _files(subject, examination)
    _limits(examination)
    return examination.findings


def default_signature(manifest: Manifest) -> tuple[str, Signature]:
    """Name and signature that are judged: `serving_default`, else the first."""
    name = SERVING_DEFAULT if SERVING_DEFAULT in manifest.signatures else next(iter(manifest.signatures))
    return name, manifest.signatures[name]


def _baseline(subject: RobustnessSubject, limits: RobustnessLimits) -> Session:
    manifest = subject.baseline_manifest or subject.manifest
    command = probe_command(subject.baseline or subject.candidate, subject.probe, limits)
    return Session(command, limits, default_signature(manifest)[0])


def _inputs(manifest: Manifest | None) -> frozenset[str]:
    return frozenset(default_signature(manifest)[1].input_names) if manifest else frozenset()


def _load(examination: Examination) -> bool:
    answer = examination.session.load()
    if answer.kind is AnswerKind.OUTPUTS:
        examination.report("load", "version", Outcome.PASS, "loads")
        return True
    words = {
        AnswerKind.NOT_LOADED: f"does not load: {answer.words}",
        AnswerKind.HUNG: f"does not load: {answer.words}",
    }.get(answer.kind, f"takes its process down while it loads: it {answer.words}")
    log = {"log": answer.log} if answer.log else None
    examination.report("load", "version", Outcome.FAIL, f"the version {words}", example=log)
    return False


def _latency(examination: Examination) -> None:
    if examination.seconds:
        ordered = sorted(examination.seconds)
        middle, late = ordered[len(ordered) // 2], ordered[int(0.99 * (len(ordered) - 1))]
        sentence = f"half of {len(ordered)} calls took {1e3 * middle:.2g} ms or less, 99 % {1e3 * late:.2g} ms"
        examination.report("latency", "calls", Outcome.PASS, sentence, number=late)


def _files(subject: RobustnessSubject, examination: Examination) -> None:
    try:
        verify_files(subject.manifest, subject.candidate)
    except Tampered as error:
        sentence = f"while it ran, the version changed its own files: {error.message}"
        examination.report("files", "version", Outcome.FAIL, sentence)


def _limits(examination: Examination) -> None:
    missing = examination.session.not_limited
    examination.report("sandbox", "limits", Outcome.PASS, f"not held back here: {'; '.join(missing)}")
