"""What a version answers to held-out examples, as a table for a user's check, row by row beside the held-out table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.contract.manifest import Manifest
from tidegate_validation.sandbox.answer import AnswerKind
from tidegate_validation.sandbox.examples import default_signature, groups_of
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.session import Session

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1024


def answers(
    directory: Path, manifest: Manifest, table: pa.Table, limits: SandboxLimits, probe: Sequence[str] | None
) -> pa.Table:
    """One column per output, row i for row i of `table`; null where the row lacks an input that cannot be missing.

    Unavailable where the version does not answer: that is the robustness gate's finding, and no check can go on.
    """
    name, signature = default_signature(manifest)
    parts: dict[str, list[Any]] = {spec.name: [None] * table.num_rows for spec in signature.outputs}
    with Session(directory, limits, name, probe) as session:
        for start in range(0, table.num_rows, _BATCH_ROWS):
            for examples in groups_of(signature, table.slice(start, _BATCH_ROWS)):
                if not len(examples):
                    continue
                answer = session.ask(examples.arrays)
                if answer.kind is not AnswerKind.OUTPUTS:
                    raise Unavailable(f"{manifest.id} does not answer held-out examples: {answer.words}")
                for output, values in answer.outputs.items():
                    for row, value in zip(examples.rows + start, _plain(values), strict=True):
                        parts[output][row] = value
    return _table(parts)


def _plain(values: Any) -> list[Any]:
    if values.dtype == object:
        flat = [item.decode(errors="replace") if isinstance(item, bytes) else item for item in values.ravel()]
        values = np.array(flat, dtype=object).reshape(values.shape)
    listed: list[Any] = values.tolist()
    return listed


def _table(parts: dict[str, list[Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.table(parts)
