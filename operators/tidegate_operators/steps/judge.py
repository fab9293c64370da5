"""Judges a model where it lies, without repository, key or engine: for a notebook, a pull request or a first look.

The verdict is not signed and admits nothing.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_operators.steps.infer_signature import PICKLES
from tidegate_operators.steps.publish import GivenSignature, Publication, publish
from tidegate_serving.admission import Verdict
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.manifest import FILE_NAME, no_version_but_some
from tidegate_serving.contract.model_files import recognisable, recognised_platform
from tidegate_serving.contract.servable import is_name
from tidegate_serving.files import require_writable
from tidegate_validation.evidence import Evidence, open_policy
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
    signature: GivenSignature | None = None,
    baseline_platform: str | None = None,
    baseline_signature: GivenSignature | None = None,
    report: Path | None = None,
    progress: Progress = SILENT,
) -> Judgement:
    """Runs the gates over `model` and says what they found; nothing is signed, so no engine admits it for this.

    `model` is a version directory, or a model's file or directory that nobody published, whose `platform` is told by
    its name, or how it begins, where it is None; so is `evidence.baseline`. Where that one tells another platform, or
    `baseline_platform` or `baseline_signature` is given for it, `platform` and `signature` are those of `model` alone.
    `signature` (a JSON file, what one holds, or signatures) says
    how what nobody published is called: a Python model does not tell, and a pickle only to a policy with
    `allow_pickle`. `report` is a directory for the page and the Data Docs.
    NotFound or InvalidInput for a model or evidence that cannot be read, OSError at once for a report that cannot be
    written.
    """
    from tidegate_validation.gates import run_gates
    from tidegate_validation.report import write_report

    if report is not None:
        require_writable(report)
    tells_baseline = baseline_platform is not None or baseline_signature is not None
    if tells_baseline and evidence.baseline is None:
        raise InvalidInput(
            "baseline_platform and baseline_signature are the baseline's, and there is no baseline: give one, or leave "
            "them out"
        )
    held_out, training = evidence.tables()
    evidence = replace(evidence, held_out=held_out, training=training)
    with tempfile.TemporaryDirectory(prefix="tidegate-judge-") as name:
        unpublished = UnpublishedModels(evidence, platform, signature, Path(name))
        directory = unpublished.version(Path(model), 1 if evidence.baseline is None else 2)
        if evidence.baseline is not None:
            before = Path(evidence.baseline)
            theirs = unpublished.of_its_own_kind(before)
            if tells_baseline:
                theirs = replace(unpublished, platform=baseline_platform, signature=baseline_signature)
            evidence = replace(evidence, baseline=theirs.version(before, 1))
        verdict = run_gates(directory, evidence, report=report, progress=progress)
    page = None if report is None else write_report(verdict, report)
    return Judgement(verdict, page)


@dataclass(frozen=True, slots=True)
class UnpublishedModels:
    """How models that nobody published become versions, named like their files, in a repository that goes away."""

    evidence: Evidence
    platform: str | None
    signature: GivenSignature | None
    repository: Path

    def version(self, model: Path, number: int) -> Path:
        """The version directory itself, or one made of the model's files."""
        if not model.exists():
            raise NotFound(f"{model} is missing: name a version directory, or a model's file or directory")
        if (model / FILE_NAME).is_file():
            return model.absolute()
        training = self.evidence.training
        publication = Publication(
            files=model,
            servable=_name(model),
            version=number,
            platform=self.platform or self._recognised(model),
            repository=self.repository,
            training=training,
            sample=None if training is not None else self.evidence.held_out,
            signature=self.signature,
            label=self.evidence.label,
            allow_pickle=self._allow_pickle,
        )
        return publish(publication).directory

    def of_its_own_kind(self, model: Path) -> UnpublishedModels:
        """The same, but for a model that tells another platform by its name, or how it begins: it is of that one, and
        tells its signature itself."""
        if self.platform is None or not model.exists():
            return self
        found = "sklearn" if model.suffix in PICKLES else recognised_platform(model)
        return self if found in (None, self.platform) else replace(self, platform=None, signature=None)

    @property
    def _allow_pickle(self) -> bool:
        return open_policy(self.evidence).robustness.allow_pickle

    def _recognised(self, model: Path) -> str:
        told = self._allow_pickle or self.signature is not None
        found = "sklearn" if model.suffix in PICKLES and told else recognised_platform(model)
        if found is None:
            if why := no_version_but_some(model):
                raise InvalidInput(why)
            if model.is_dir() and not any(model.iterdir()):
                raise InvalidInput(f"{model} is an empty folder: name one that holds a model, or a version's directory")
            if model.suffix in PICKLES:
                raise InvalidInput(
                    f"{model} is a pickle, which can run any code: save it with skops, or give a policy with "
                    "allow_pickle = true under [robustness], where you trust it"
                )
            is_baseline = self.evidence.baseline is not None and Path(self.evidence.baseline) == model
            own = ": of the baseline these are baseline_platform and baseline_signature" if is_baseline else ""
            raise InvalidInput(
                f"{model} does not tell its platform by its name or how it begins: name the platform "
                f"({recognisable()}, python), and give a signature where the model does not tell how it is called{own}"
            )
        return found


def _name(model: Path) -> str:
    """The model's file without its suffix, or its folder, as a servable may be called."""
    own = model.stem if model.is_file() else model.absolute().name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", own).strip("-._")[:128]
    return name if is_name(name) else "model"
