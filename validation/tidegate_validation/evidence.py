"""What a version is judged by, as a person names it: one value that operators and commands hand on unchanged.

`open_case` reads and checks it once, before any gate runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.repository import golden_path
from tidegate_serving.contract.signature import inputs_by_name
from tidegate_serving.inference_log.reader import check_log
from tidegate_validation.case import Case, Version
from tidegate_validation.golden_requests import GoldenRequests, read_golden_requests
from tidegate_validation.progress import SILENT, Progress
from tidegate_validation.tables import as_table

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate_validation.policy import Policy

_HELD_OUT = "held-out data"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The data and settings of one judgement. Tables are given as `tidegate_validation.tables.as_table` takes them.

    held_out: data that training never saw, with one column per input and the label.
    label: the column of the truth, where the manifest names none.
    baseline: directory of the version to compare with; None for a first version.
    training: the data that the version was trained on.
    log_root: root folder of the inference log of what serves, for the skew gate.
    policy: a TOML file or a Policy; None for the defaults.
    entity: a column whose equal values belong together, a user say.
    golden: a file of golden requests, instead of the version's own.
    """

    held_out: Any
    label: str | None = None
    baseline: Path | str | None = None
    training: Any = None
    log_root: Path | str | None = None
    policy: Path | str | Policy | None = None
    entity: str | None = None
    golden: Path | str | None = None

    def tables(self) -> tuple[pa.Table, pa.Table | None]:
        """The held-out data and the training data. NotFound or InvalidInput for what cannot be read."""
        training = None if self.training is None else as_table(self.training, "training data")
        return as_table(self.held_out, _HELD_OUT), training


def open_case(
    directory: Path,
    evidence: Evidence,
    *,
    report: Path | None = None,
    probe: Sequence[str] | None = None,
    progress: Progress = SILENT,
) -> Case:
    """The case of the version in `directory`; see `Case` for `report`, `probe` and `progress`.

    NotFound, Tampered or InvalidInput for a version or evidence that cannot be read, or that nothing can be judged by.
    """
    candidate = Version.read(directory)
    label = _label(candidate.manifest, evidence.label)
    held_out, training = evidence.tables()
    where = str(evidence.held_out) if isinstance(evidence.held_out, str | Path) else _HELD_OUT
    _check_examples(candidate.manifest, held_out, label, where)
    return Case(
        candidate=candidate,
        baseline=Version.read(Path(evidence.baseline)) if evidence.baseline is not None else None,
        held_out=held_out,
        label=label,
        training=training,
        log_root=check_log(Path(evidence.log_root)) if evidence.log_root is not None else None,
        entity=evidence.entity,
        golden=_golden(directory, evidence.golden),
        report=report,
        probe=probe,
        progress=progress,
    )


def open_policy(evidence: Evidence) -> Policy:
    """The policy that the evidence names. NotFound or InvalidInput for a file that is none."""
    from tidegate_validation.policy import Policy

    policy = evidence.policy
    return policy if isinstance(policy, Policy) else Policy.load(None if policy is None else Path(policy))


def _golden(directory: Path, given: Path | str | None) -> GoldenRequests | None:
    """Those that were named, else those that were published with the version."""
    own = golden_path(directory)
    if given is None and not own.is_file():
        return None
    return read_golden_requests(own if given is None else Path(given))


def _label(manifest: Manifest, given: str | None) -> str:
    label = manifest.label or given
    if label is None:
        raise InvalidInput(f"{manifest.id} names no label column, so nothing can be judged: give the label column")
    if given is not None and given != label:
        raise InvalidInput(f"the manifest of {manifest.id} names label {label!r}, not {given!r}: leave the label out")
    return label


def _check_examples(manifest: Manifest, examples: pa.Table, label: str, where: str) -> None:
    """InvalidInput unless the held-out examples can be judged at all: nothing is signed for a wrong file."""
    needed = dict.fromkeys([*inputs_by_name(manifest.signatures), label])
    missing = [name for name in needed if name not in examples.column_names]
    if missing:
        raise InvalidInput(
            f"{where} lacks {', '.join(missing)} (it has {', '.join(examples.column_names)}): "
            f"held-out data for {manifest.id} needs each input and the label"
        )
    if examples.num_rows == 0:
        raise InvalidInput(f"{where} has no rows: give held-out examples to judge {manifest.id} by")
