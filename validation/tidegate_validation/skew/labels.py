"""Labels that arrive late: which of several counts, and which answered row each belongs to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.event_times import unix_seconds

if TYPE_CHECKING:
    import pyarrow as pa

LABEL, AT, REQUEST, ROW = "label", "at", "request_id", "row"

Lookup = Callable[[Collection[str]], int]
"""How many of some request ids the log has at all."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The label of each answered row [n], None where there is none. `unmatched` labels are of requests that the log
    does not have, `elsewhere` of those that it has, but not among the answered rows; `ambiguous` do not say which of
    several rows they are for."""

    truth: list[Any]
    unmatched: int = 0
    elsewhere: int = 0
    ambiguous: int = 0


def newest_labels(labels: pa.Table) -> dict[tuple[str, int | None], Any]:
    """The label of each request, or of each row of it: the one with the newest time counts, then the last to come.

    Columns `request_id` (taken as text) and `label`, and where there are such `row` and `at`, in any form that event
    times may have; one that is missing or of another unit is before all others. InvalidInput where a column is missing,
    for an `at` that is no time and a `row` that is no whole number.
    """
    for name in (REQUEST, LABEL):
        if name not in labels.column_names:
            raise InvalidInput(f"labels have no column {name!r}: they have {', '.join(labels.column_names)}")
    size = labels.num_rows
    rows = labels[ROW].to_pylist() if ROW in labels.column_names else [None] * size
    when = unix_seconds(labels, AT, "labels") if has_moments(labels) else np.full(size, np.nan)
    order = np.argsort(np.where(np.isfinite(when), when, -np.inf), kind="stable").tolist()
    names, values = labels[REQUEST].to_pylist(), labels[LABEL].to_pylist()
    return {(str(names[place]), _row(rows[place])): values[place] for place in order if values[place] is not None}


def _row(row: Any) -> int | None:
    if row is None:
        return None
    words = f"labels have {ROW} {row!r}: write the number of the row in its request, from 0"
    try:
        number = int(row)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(words) from error
    if not isinstance(row, str) and number != row:
        raise InvalidInput(words)
    return number


def has_moments(labels: pa.Table) -> bool:
    """Whether labels say when they were found."""
    import pyarrow.compute as pc

    return AT in labels.column_names and not pc.all(labels[AT].is_null(nan_is_null=True), min_count=0).as_py()


def joined(requests: Sequence[str], rows: Sequence[int], labels: pa.Table | None, logged: Lookup) -> Joined:
    """Labels beside answered rows, by request id and row number; a request that was sent twice has its label twice."""
    if labels is None:
        return Joined([None] * len(requests))
    known = newest_labels(labels)
    rows_of: dict[str, set[int]] = {}
    for request, row in zip(requests, rows, strict=True):
        rows_of.setdefault(request, set()).add(row)
    lost = [request for request, _ in known if request not in rows_of]
    whole = {request: label for (request, row), label in known.items() if row is None and request in rows_of}
    fitting = {
        request: label if isinstance(label, list) else [label]
        for request, label in whole.items()
        if len(label if isinstance(label, list) else [label]) == len(rows_of[request])
    }
    truth = []
    for request, row in zip(requests, rows, strict=True):
        own = known.get((request, row))
        if own is None and request in fitting and row < len(fitting[request]):
            own = fitting[request][row]
        truth.append(own)
    elsewhere = logged(lost) if lost else 0
    return Joined(truth, len(lost) - elsewhere, elsewhere, len(whole) - len(fitting))
