"""Which labels the quality gate can judge by: 0 and 1, or numbers.

`gates` asks before anything runs, so that a label of another kind is the user's mistake at once and no gate's error
later; `gate` asks again for the rows that it takes.
"""

from __future__ import annotations

from typing import Any

from tidegate_serving.contract.errors import InvalidInput


def check_label(table: Any, label: str) -> None:
    """Raises InvalidInput unless the pyarrow.Table has the column and it holds numbers or truth values."""
    import pyarrow as pa

    if label not in table.column_names:
        raise InvalidInput(f"held-out data lacks the label {label!r}: add it, or name another label")
    kind = table.schema.field(label).type
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InvalidInput(
            f"label {label!r} has type {kind}: the quality gate judges by 0 and 1, or by numbers; encode the label, or "
            "leave quality out of `run` and `required` in the policy"
        )
