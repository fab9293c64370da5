"""Judges a model where it lies, without repository, key or engine: for a notebook, a pull request or a first look.

The verdict is not signed and admits nothing.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_operators.steps.publish import Publication, publish
from tidegate_serving.admission import Verdict
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.manifest import FILE_NAME
from tidegate_serving.platforms.registry import recognisable, recognised_platform
from tidegate_validation.evidence import Evidence
from tidegate_validation.progress import SILENT, Progress


@dataclass(frozen=True, slots=True)
class Judgement:
    """The unsigned verdict, and the report's page where one was written."""

    verdict: Verdict
    report: Path | None


def judge(
    model: Path | str,
    evidence: Evidence,
    *,
    platform: str | None = None,
    report: Path | None = None,
    progress: Progress = SILENT,
) -> Judgement:
    """Runs the gates over `model` and says what they found; nothing is signed, so no engine admits it for this.

    `model` is a version directory, or a model's file or directory that nobody published, whose `platform` is told by
    its name where it is None; so is `evidence.baseline`. `report` is a directory for the page and the Data Docs.
    NotFound or InvalidInput for a model or evidence that cannot be read.
    """
    from tidegate_validation.gates import run_gates
    from tidegate_validation.report import write_report

    held_out, training = evidence.tables()
    evidence = replace(evidence, held_out=held_out, training=training)
    with tempfile.TemporaryDirectory(prefix="tidegate-judge-") as name:
        directory = _version(Path(model), 2, platform, evidence, Path(name))
        if evidence.baseline is not None:
            baseline = _version(Path(evidence.baseline), 1, platform, evidence, Path(name))
            evidence = replace(evidence, baseline=baseline)
        verdict = run_gates(directory, evidence, report=report, progress=progress)
    page = None if report is None else write_report(verdict, report)
    return Judgement(verdict, page)


def _version(model: Path, number: int, platform: str | None, evidence: Evidence, repository: Path) -> Path:
    """The version directory itself, or the model's files published into a repository that goes away."""
    if not model.exists():
        raise NotFound(f"{model} is missing: name a version directory, or a model's file or directory")
    if (model / FILE_NAME).is_file():
        return model.absolute()
    publication = Publication(
        files=model,
        servable="judged",
        version=number,
        platform=platform or _platform(model),
        repository=repository,
        training=evidence.training,
        sample=None if evidence.training is not None else evidence.held_out,
        label=evidence.label,
    )
    return publish(publication).directory


def _platform(model: Path) -> str:
    found = recognised_platform(model)
    if found is None:
        raise InvalidInput(
            f"{model} does not tell its platform by its name: publish it first, or name one of {recognisable()}"
        )
    return found
