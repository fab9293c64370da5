"""What a version is judged by, gathered from paths or tables and checked before any gate runs.

`validate` and `judge` hand in what their callers gave; out goes the request that the gates take.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.publication_checks import inputs_by_name
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_validation.tables import as_table

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate_validation.gates import Policy, ValidationRequest

HELD_OUT = "held-out data"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The data and settings of one judgement.

    `held_out` and `training` are tables or paths as `tidegate_validation.tables.as_table` takes them, with one column
    per input and the label; `label` is the column of the truth, where the manifest names none; `baseline` the version
    to compare with, None for a first version; `log_root` the inference log, for the skew gate; `policy` a TOML file or
    a Policy; `entity` a column whose equal values belong together, a user say.
    """

    held_out: Any
    label: str | None = None
    baseline: Path | None = None
    training: Any = None
    log_root: Path | None = None
    policy: Path | Policy | None = None
    entity: str | None = None


def gather(directory: Path, evidence: Evidence, report: Path | None) -> ValidationRequest:
    """The request for the version in `directory`; `report` is where Data Docs go.

    NotFound or InvalidInput for evidence that cannot be read, or by which nothing could be judged.
    """
    from tidegate_validation.gates import Policy, ValidationRequest

    manifest, _ = read_manifest(directory)
    truth = _label(manifest, evidence.label)
    examples = as_table(evidence.held_out, HELD_OUT)
    _check_examples(manifest, examples, truth, _name(evidence.held_out))
    policy = evidence.policy
    return ValidationRequest(
        candidate=directory,
        baseline=evidence.baseline,
        held_out=examples,
        training=None if evidence.training is None else as_table(evidence.training, "training data"),
        label=truth,
        log_root=evidence.log_root,
        serving_model=manifest.id.name if evidence.log_root is not None else None,
        policy=policy if isinstance(policy, Policy) else Policy.load(policy),
        report=report,
        entity=evidence.entity,
    )


def _name(held_out: Any) -> str:
    return str(held_out) if isinstance(held_out, str | Path) else HELD_OUT


def _check_examples(manifest: Manifest, examples: pa.Table, truth: str, where: str) -> None:
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
