"""Runs the gates over one version and signs what they say with the validator's key.

In come the version directory, the evaluation data and the version to compare with; out go the signed verdict and its
report beside the directory, and their whereabouts to whoever pushes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_operators.steps.publication_checks import inputs_by_name
from tidegate_operators.steps.tables import read_table
from tidegate_serving.contract.errors import InvalidInput, Refused
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.repository import report_directory, verdict_path
from tidegate_serving.contract.signing import load_private_key, write_verdict
from tidegate_serving.contract.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Validated:
    """The verdict, where it lies signed, the SHA-256 of that file in hex, and the report for people."""

    verdict: Verdict
    verdict_path: Path
    verdict_digest: str
    report: Path


def validate(
    *,
    directory: Path,
    held_out: Path,
    private_key: Path,
    baseline: Path | None = None,
    training: Path | None = None,
    log_root: Path | None = None,
    policy: Path | None = None,
    label: str | None = None,
) -> Validated:
    """Judges the version in `directory` and writes the signed verdict, whether it allows or denies.

    `held_out` and `training` are Parquet files with one column per input and the manifest's label; `baseline` the
    directory of the version that serves now (see `find_baseline`), None for a first version; `log_root` the inference
    log, for the skew gate; `policy` a TOML file; `label` the column of the truth, where the manifest names none.

    NotFound or InvalidInput for evidence that cannot be read. A gate that fails to run is a finding with outcome ERROR,
    which denies. Ask `require_allowed` where a no shall be an error.
    """
    from tidegate_validation.gates import Policy, ValidationRequest
    from tidegate_validation.gates import validate as run_gates
    from tidegate_validation.report import write_report

    key = load_private_key(private_key)
    directory = directory.absolute()
    manifest, _ = read_manifest(directory)
    truth = _label(manifest, label)
    examples = read_table(held_out, "held-out data")
    _check_examples(manifest, examples, truth, held_out)
    request = ValidationRequest(
        candidate=directory,
        baseline=baseline,
        held_out=examples,
        training=None if training is None else read_table(training, "training data"),
        label=truth,
        log_root=log_root,
        serving_model=manifest.id.name if log_root is not None else None,
        policy=Policy.load(policy),
        report=report_directory(directory),
    )
    verdict = run_gates(request)
    path = verdict_path(directory)
    verdict_digest = write_verdict(verdict, path, key)
    report = write_report(verdict, report_directory(directory))
    return Validated(verdict, path, verdict_digest, report)


def require_allowed(validated: Validated) -> Validated:
    """The same, or Refused with the verdict's sentence where it does not allow the version."""
    if not validated.verdict.allowed:
        raise Refused(validated.verdict.sentence)
    return validated


def _check_examples(manifest: Manifest, examples: pa.Table, truth: str, where: Path) -> None:
    """InvalidInput unless the held-out examples can be judged at all: nothing is signed for a wrong file."""
    needed = dict.fromkeys([*inputs_by_name(manifest.signatures), truth])
    missing = [name for name in needed if name not in examples.column_names]
    if missing:
        raise InvalidInput(
            f"{where} lacks {', '.join(missing)} (it has {', '.join(examples.column_names)}): "
            f"held-out data for {manifest.id} needs each input and the label"
        )
    if examples.num_rows == 0:
        raise InvalidInput(f"{where} has no rows: give held-out examples to judge {manifest.id} by")


def _label(manifest: Manifest, given: str | None) -> str:
    label = manifest.label or given
    if label is None:
        raise InvalidInput(f"{manifest.id} names no label column, so nothing can be judged: name it with --label")
    if given is not None and given != label:
        raise InvalidInput(f"the manifest of {manifest.id} names label {label!r}, not {given!r}: leave the label out")
    return label
