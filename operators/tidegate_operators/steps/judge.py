"""Judges a model where it lies, without repository, key or engine: for a notebook, a pull request or a first look.

In come a version directory or a model's own files, and data in any form; out goes the unsigned verdict, which admits
nothing, and the report where one is wanted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate_operators.steps.evidence import HELD_OUT, Evidence, gather
from tidegate_operators.steps.publish_files import Publication, publish_files
from tidegate_serving.admission.verdict import Verdict
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.manifest import FILE_NAME
from tidegate_serving.platforms.registry import recognisable, recognised_platform
from tidegate_validation.tables import as_table


@dataclass(frozen=True, slots=True)
class Judged:
    """The unsigned verdict, and the report's page where one was written."""

    verdict: Verdict
    report: Path | None


def judge(model: Path | str, evidence: Evidence, *, platform: str | None = None, report: Path | None = None) -> Judged:
    """Runs the gates over `model` and says what they found; nothing is signed, so no engine admits it for this.

    `model` is a version directory, or a model's file or directory that nobody published, whose `platform` is told by
    its name where it is None; so is `evidence.baseline`. `report` is a directory for the page and the Data Docs.
    NotFound or InvalidInput for a model or evidence that cannot be read.
    """
    from tidegate_validation.gates import validate as run_gates
    from tidegate_validation.report import write_report

    evidence = _read(evidence)
    with tempfile.TemporaryDirectory(prefix="tidegate-judge-") as name, contextlib.ExitStack() as stack:
        aside = Path(name)
        directory = stack.enter_context(_version(Path(model), 2, platform, evidence, aside))
        if evidence.baseline is not None:
            baseline = stack.enter_context(_version(Path(evidence.baseline), 1, platform, evidence, aside))
            evidence = dataclasses.replace(evidence, baseline=baseline)
        verdict = run_gates(gather(directory, evidence, report))
    page = None if report is None else write_report(verdict, report)
    return Judged(verdict, page)


def _read(evidence: Evidence) -> Evidence:
    """The same with its data as tables, read once for both models and the gates."""
    training = None if evidence.training is None else as_table(evidence.training, "training data")
    return dataclasses.replace(evidence, held_out=as_table(evidence.held_out, HELD_OUT), training=training)


@contextlib.contextmanager
def _version(model: Path, number: int, platform: str | None, evidence: Evidence, aside: Path) -> Iterator[Path]:
    """The version directory itself, or the model's files published into a repository that goes away."""
    if not model.exists():
        raise NotFound(f"{model} is missing: name a version directory, or a model's file or directory")
    if (model / FILE_NAME).is_file():
        yield model.absolute()
        return
    published = publish_files(
        Publication(
            files=[model],
            servable="judged",
            version=number,
            platform=platform or _platform(model),
            repository=aside,
            training=evidence.training,
            sample=None if evidence.training is not None else evidence.held_out,
            label=evidence.label,
        )
    )
    yield published.directory


def _platform(model: Path) -> str:
    found = recognised_platform(model)
    if found is None:
        raise InvalidInput(
            f"{model} does not tell its platform by its name: publish it first, or name one of {recognisable()}"
        )
    return found
