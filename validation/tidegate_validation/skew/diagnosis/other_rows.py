"""Values of the same examples that are those of other examples: joined by a wrong key, or given to other rows.

Two things give it away: the values are those that training has for other rows, and they know no more of the right ones
than any two examples know of each other. Where another column decides which value a row has, that is the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate_validation.statistics.arrays import Floats, Integers, Mask

_NEARLY_ALL = 0.9
_LEAST_ROWS = 20
_LEAST_PER_KEY = 3.0
_FEW = 12
_SURE = 0.001
_FAR = 0.5
"""Values of other rows are at least half as far from the right ones as those of any two examples from each other."""

Column = Floats | npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class OtherRows:
    """Values are those of other examples; `key` is the column by which they were joined, None where none was found."""

    key: str | None = None


def of_other_rows(x: Column, y: Column, wrong: Mask, others: Mapping[str, Column]) -> OtherRows | None:
    """Whether `y` holds training's values `x` of other examples where it is `wrong`; `others` may be the key."""
    codes, known = _codes(x, y)
    before, now = codes[: len(x)], codes[len(x) :]
    if int(wrong.sum()) < _LEAST_ROWS or np.mean(now[wrong] < known) < _NEARLY_ALL:
        return None
    key = next(_keys(before[wrong], now[wrong], {name: one[wrong] for name, one in others.items()}), None)
    if key is not None:
        return OtherRows(key)
    return OtherRows() if _telling(x[wrong], y[wrong], x) or _unrelated(before, now, wrong, known) else None


def _telling(before: Column, now: Column, training: Column) -> bool:
    """Whether training has these numbers, and not those that lie as far beyond them."""
    if before.dtype == object or now.dtype == object:
        return False
    a, b = np.asarray(before, dtype=np.float64), np.asarray(now, dtype=np.float64)
    codes, known = _codes(training, 2 * b - a)
    return float(np.mean(codes[len(training) :] < known)) < _NEARLY_ALL - _FAR


def _codes(x: Column, y: Column) -> tuple[Integers, int]:
    """Both columns as places among training's values in their order; those it lacks come after these."""
    values = np.unique(_plain(x))
    both = np.concatenate([_plain(x), _plain(y)])
    place = np.minimum(np.searchsorted(values, both), len(values) - 1)
    return np.where(values[place] == both, place, len(values)).astype(np.int64), len(values)


def _plain(column: Column) -> npt.NDArray[np.generic]:
    """Texts as they are, numbers to seven digits, in which float noise does not show."""
    if column.dtype == object:
        return np.array([str(value) for value in column])
    values = np.nan_to_num(np.asarray(column, dtype=np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = 10.0 ** (np.floor(np.log10(np.abs(values))) - 6)
        rounded = np.round(values / step) * step
    return np.where((values == 0) | ~np.isfinite(values), values, rounded).astype(np.float32)


def _keys(before: Integers, now: Integers, others: Mapping[str, Column]) -> Iterator[str]:
    """Columns whose every value has one value now, although it had several; the one of the most values first."""
    groups = {name: np.unique(_plain(one), return_inverse=True)[1] for name, one in others.items()}
    for name in sorted(groups, key=lambda one: -int(groups[one].max())):
        group = groups[name]
        if group.max() == 0 or len(now) < _LEAST_PER_KEY * (int(group.max()) + 1):
            continue
        usual = np.bincount(now).max() / len(now)
        decided, was = _decided(group, now), _decided(group, before)
        if decided >= _NEARLY_ALL and decided - max(usual, was) > _FAR * (1 - max(usual, was)):
            yield name


def _decided(group: Integers, values: Integers) -> float:
    """The share of rows that have the most frequent value of their group."""
    pairs, n = np.unique(np.stack([group, values]), axis=1, return_counts=True)
    most = np.zeros(int(group.max()) + 1)
    np.maximum.at(most, pairs[0], n)
    return float(most.sum() / len(group))


def _unrelated(before: Integers, now: Integers, wrong: Mask, known: int) -> bool:
    """Whether wrong values are to the right ones as those of any two examples that differ are to each other."""
    shares = np.bincount(before, minlength=known)[:known] / len(before)
    if np.mean(wrong) > 1 - (shares**2).sum() + _error(len(wrong)):
        return False
    if known > _FEW:
        scores = (np.cumsum(shares) - shares / 2)[np.minimum(np.stack([before, now]), known - 1)]
        drawn = 2 * float(shares @ (np.cumsum(shares) - shares / 2) ** 2) - 0.5
        gap = float(np.mean((scores[0] - scores[1])[wrong] ** 2))
        return gap > _FAR * drawn / max(1 - float((shares**2).sum()), 1e-9)
    seen = np.zeros((known, known))
    np.add.at(seen, (before[wrong & (now < known)], now[wrong & (now < known)]), 1.0)
    return _independent(seen, shares)


def _error(rows: int) -> float:
    return 2 * float(np.sqrt(0.25 / rows))


def _independent(seen: Floats, shares: Floats) -> bool:
    """Pearson's test of a table without its diagonal against pairs of examples that differ, drawn at random."""
    from scipy import special

    drawn = np.outer(shares, shares)
    np.fill_diagonal(drawn, 0.0)
    drawn *= seen.sum() / drawn.sum()
    told = drawn >= 1.0
    if told.sum() < 2:
        return False
    excess = float((((seen - drawn) ** 2)[told] / drawn[told]).sum())
    return bool(special.chdtrc(int(told.sum()) - 1, excess) > _SURE)
