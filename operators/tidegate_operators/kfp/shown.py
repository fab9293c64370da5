"""What Kubeflow's pages show of a step: the verdict, its numbers, the ROC curve and the report, as artifacts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.kfp.arguments import Artifact
from tidegate_operators.steps.verdict_numbers import verdict_numbers
from tidegate_serving.contract.repository import report_directory

if TYPE_CHECKING:
    from tidegate_operators.steps import CanaryResult, Skew, Validation

_ROC = "roc.json"


def show_verdict(validated: Validation, artifact: Artifact) -> None:
    """The signed file itself, with what it says in short."""
    verdict = validated.verdict
    _place(validated.verdict_path, artifact)
    artifact.metadata.update(
        servable=verdict.id.name,
        version=str(verdict.id.version),
        outcome=verdict.outcome.value,
        allowed=verdict.allowed,
        sentence=verdict.sentence,
        manifest_digest=verdict.manifest_digest,
        verdict_digest=validated.verdict_digest,
        verdict_path=str(validated.verdict_path),
    )


def show_numbers(validated: Validation, artifact: Artifact) -> None:
    """Every number of the verdict by name, as system.Metrics."""
    artifact.metadata.update(verdict_numbers(validated.verdict))


def show_roc(validated: Validation, artifact: Artifact) -> None:
    """The candidate's ROC curve on the held-out data, as system.ClassificationMetrics; nothing where it has none."""
    path = report_directory(_directory(validated)) / _ROC
    if not path.is_file():
        return
    found = json.loads(path.read_text(encoding="utf-8"))
    names = ("thresholds", "false_positive_rates", "true_positive_rates")
    artifact.metadata["confidenceMetrics"] = [
        {"confidenceThreshold": threshold, "falsePositiveRate": false, "recall": true}
        for threshold, false, true in zip(*(found[name] for name in names), strict=True)
    ]


def show_page(page: Path, artifact: Artifact) -> None:
    """A page that needs nothing from outside, as system.HTML."""
    _place(page, artifact)


def show_canary(result: CanaryResult, artifact: Artifact) -> None:
    """The canary's counts and each check's evidence, as system.Metrics."""
    artifact.metadata.update(_finite(asdict(result.numbers).items()))
    for check in result.checks:
        said = check.to_dict()
        name = said.pop("check")
        artifact.metadata.update(_finite((f"{name}.{key}", value) for key, value in said.items()))


def show_skew(found: Skew, artifact: Artifact) -> None:
    """Each feature's distance, as system.Metrics."""
    numbers = ((f"{one.check}.{one.subject}", one.number) for one in found.report.findings)
    artifact.metadata.update(_finite([("rows", found.report.rows), *numbers]))


def _directory(validated: Validation) -> Path:
    identity = validated.verdict.id
    return validated.verdict_path.with_name(str(identity.version))


def _place(source: Path, artifact: Artifact) -> None:
    target = Path(artifact.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _finite(items: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """Those that are numbers which JSON can hold."""
    found = {key: float(value) for key, value in items if isinstance(value, int | float)}
    return {key: value for key, value in found.items() if abs(value) < float("inf")}
