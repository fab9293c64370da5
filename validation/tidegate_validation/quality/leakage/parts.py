"""Parts of the rows in which one input by itself may give the label away, though it does not on the whole.

Parts are cut by the input alone, or by another column: where it is told at all, single values of it, either end of its
values, rows of one kind.
Only where a number equals its label is the label looked at, and what equals it by chance is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.leakage.single_feature import single_feature_power
from tidegate_validation.statistics.arrays import Floats, Integers, Mask

FEWEST = 200
"""Rows without an exception from which on exceptions are surely rarer than one in 65."""
_CELL = 100
_MASS = 0.02
_COMMON = 0.8
_KINDS = 30
_PERSISTENT = 0.5
_ENDS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9)
"""Where a number is cut in two."""
_HALF = 0.55
"""More than such a share of the rows is no end."""
_WINDOW = 0.02
_FEWEST_IN_WINDOW = 30
_SPARSER = 4.0
"""Numbers lie apart where the rows between them are so many times as sparse as on either side: a distribution of one
heap comes to 3 by chance."""
_TIMES = 5


@dataclass(frozen=True, slots=True)
class Part:
    """Rows in which an input may give the label away: the input, in words where, and the power of the input there."""

    name: str
    where: str
    inside: Mask
    alone: float


def parts_of(
    evaluation: Evaluation,
    inputs: Mapping[str, Array],
    least: float,
    limit: float,
    suspicious: Callable[[Mask], bool],
) -> Iterator[Part]:
    """Parts of at least the share `least` of the rows in which one input reaches the power `limit` by itself.

    Rows of one kind, and those at either end of an input, are only looked at where the candidate is `suspicious`.
    """
    columns = {name: array.reshape(len(array), -1)[:, 0] for name, array in inputs.items() if array.size == len(array)}
    fewest = max(FEWEST, int(np.ceil(least * len(evaluation))))
    cells = {name: _cells(column) for name, column in columns.items()}
    for name, column in columns.items():
        codes, names = cells[name]
        pure = _pure_places(codes, names, evaluation)
        found = [_told(name, column, codes < 0, evaluation), _equal(name, column, evaluation)]
        found.append(_pure(name, codes, names, pure, evaluation))
        if pure:
            found.append(_told(name, column, (codes < 0) | np.isin(codes, pure), evaluation))
        found += _ends(name, column, evaluation, fewest, suspicious)
        for part in found:
            if part is not None and fewest <= part.inside.sum() < len(evaluation) and part.alone >= limit:
                yield part
    for other, (codes, names) in cells.items():
        for place, kind in enumerate(names[:_KINDS]):
            inside = codes == place
            if not (fewest <= inside.sum() < len(evaluation) and suspicious(inside)):
                continue
            for name, column in columns.items():
                alone = _alone(evaluation, inside, column) if name != other else 0.0
                if alone >= limit:
                    yield Part(name, f"where `{other}` is {kind}", inside, alone)


def _cells(column: Array) -> tuple[Integers, list[str]]:
    """The place of each row's value among those with a mass of rows, the most frequent first, -1 for any other; NaN and
    empty text count as missing.
    """
    numeric = column.dtype.kind in "fiub"
    missing = ~np.isfinite(column.astype(np.float64)) if numeric else column == b""
    values, codes = np.unique(np.where(missing, 0, column) if numeric else column, return_inverse=True)
    codes = np.where(missing, len(values), codes)
    rows = np.bincount(codes, minlength=len(values) + 1)
    kept = [place for place in np.argsort(-rows, kind="stable") if rows[place] >= max(_CELL, _MASS * len(column))]
    places = np.full(len(rows), -1, dtype=np.int64)
    places[kept] = np.arange(len(kept))
    words = [_word(values[place]) if place < len(values) else "missing" for place in kept]
    return places[codes], words


def _word(value: object) -> str:
    return f"`{value.decode(errors='replace')}`" if isinstance(value, bytes) else f"{value:g}"


def _told(name: str, column: Array, inside: Mask, evaluation: Evaluation) -> Part | None:
    """Where it has a value that few other rows have, or only rows of one class, while elsewhere it is missing or a
    default.
    """
    if not FEWEST <= inside.sum() < len(inside):
        return None
    return Part(name, f"where `{name}` has a value of its own", inside, _alone(evaluation, inside, column))


def _ends(
    name: str, column: Array, evaluation: Evaluation, fewest: int, suspicious: Callable[[Mask], bool]
) -> Iterator[Part]:
    """The highest and the lowest of a number's values: a leak may lie beyond all that the input is elsewhere. Where all
    lie together, what is sure of classes at one end may be a rule, such as a threshold of age."""
    if column.dtype.kind not in "fiu" or len(np.unique(column)) <= _KINDS:
        return
    values = column.astype(np.float64)
    if evaluation.task != Task.REGRESSION and not _lie_apart(values[np.isfinite(values)]):
        return
    edges = np.quantile(values[np.isfinite(values)], _ENDS)
    for edge in np.unique(edges):
        for words, inside in ((f">= {edge:.6g}", values >= edge), (f"< {edge:.6g}", values < edge)):
            if fewest <= inside.sum() <= _HALF * len(column) and suspicious(inside):
                yield Part(name, f"where `{name}` {words}", inside, _alone(evaluation, inside, column))


def _lie_apart(values: Floats) -> bool:
    """Whether few rows lie between many on either side; values of which many are the same do."""
    window = max(_FEWEST_IN_WINDOW, int(_WINDOW * len(values)))
    ordered = np.sort(values)
    widths = ordered[window:] - ordered[:-window]
    densest = np.maximum(np.minimum.accumulate(widths), np.minimum.accumulate(widths[::-1])[::-1])
    return bool((widths > _SPARSER * densest).any())


def _alone(evaluation: Evaluation, inside: Mask, column: Array) -> float:
    part = evaluation.take(np.flatnonzero(inside))
    if evaluation.task != Task.REGRESSION:
        counts = np.bincount(part.labels.astype(np.int64), minlength=2)
        if np.sort(counts)[-2] < _CELL // 4:
            return 0.0
    elif not part.labels.std():
        return 0.0
    return max(single_feature_power(part, column[inside][:, np.newaxis]), _on_a_line(part, column[inside]))


def _on_a_line(part: Evaluation, column: Array) -> float:
    """R² of a straight line, which bins reach only with many rows; 0 for anything but numbers."""
    if part.task != Task.REGRESSION or column.dtype.kind not in "fiu":
        return 0.0
    values = column.astype(np.float64)
    if len(values) < _CELL or not np.isfinite(values).all() or not values.std():
        return 0.0
    return float(np.corrcoef(values, part.labels)[0, 1] ** 2)


def _pure_places(codes: Integers, names: list[str], evaluation: Evaluation) -> list[int]:
    """The single values with which all labels are the same."""
    if evaluation.task == Task.REGRESSION:
        return []
    rows = [np.flatnonzero(codes == place) for place in range(len(names))]
    return [place for place, inside in enumerate(rows) if len(inside) >= _CELL and _of_one_label(evaluation, inside)]


def _of_one_label(evaluation: Evaluation, rows: Integers) -> bool:
    labels = evaluation.labels[rows]
    return bool((labels == labels[0]).all())


def _pure(name: str, codes: Integers, names: list[str], places: list[int], evaluation: Evaluation) -> Part | None:
    """Of the values with labels all the same, those whose label is not that of nearly all other rows."""
    labels, telling = evaluation.labels, list[int]()
    for place in places:
        inside = codes == place
        if (labels[~inside] == labels[inside][0]).mean() < _COMMON:
            telling.append(place)
    if not telling:
        return None
    words = " or ".join(names[place] for place in telling[:3]) + (" ..." if len(telling) > 3 else "")
    return Part(name, f"where `{name}` is {words}", np.isin(codes, telling), 1.0)


def _equal(name: str, column: Array, evaluation: Evaluation) -> Part | None:
    """Where a number equals its label, by more than chance: no other difference is nearly as frequent, and elsewhere
    the input tells little, unlike yesterday's value.
    """
    if evaluation.task != Task.REGRESSION or column.dtype.kind not in "fiu":
        return None
    values: Floats = column.astype(np.float64)
    labels = evaluation.labels
    seen, codes, rows = np.unique(labels, return_inverse=True, return_counts=True)
    rare = (rows < max(_MASS * len(labels), 2))[codes] & np.isfinite(values)
    scale = np.maximum(np.abs(labels), 1e-3 * labels.std())
    equal = rare & (np.abs(values - labels) <= 1e-6 * scale)
    others = np.round(values[rare & ~equal] - labels[rare & ~equal], 6)
    frequent = np.unique(others, return_counts=True)[1].max(initial=0)
    if len(seen) < FEWEST or equal.sum() < max(FEWEST, _TIMES * frequent):
        return None
    rest = rare & ~equal
    if rest.sum() >= _CELL and _alone(evaluation, rest, column) > _PERSISTENT:
        return None
    return Part(name, f"where `{name}` equals it", equal, 1.0)
