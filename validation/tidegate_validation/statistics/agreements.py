"""Which columns hold equal values in the same rows: a field that was joined from the wrong place looks right by itself
where both are spread alike.

Rows in which both columns hold what they mostly hold say nothing, as most rows of two columns that are mostly zero are
equal. Of the others, in which something is there to agree about, the share that is equal is the pair's agreement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_validation.statistics.agreement import Agreement, Agreements
from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.rows import ReadColumn, Rows

LEAST_ROWS = 30
"""Fewer rows in which something is there to agree about say nothing."""
_COMPARED = 40_000_000
_FEWEST, _MOST = 300, 4_000
_COUNTED = 60_000
_LISTED = 0.01
_TELLING = 100
_FLOOR = 0.03
"""What none of so many telling rows shows, holds in this share of all rows at most (the rule of three)."""
_SEARCHED = 20_000
"""So many pairs of columns that are seldom filled are looked at in the rows where they are."""
_KEPT = 400
_HELD = 100
"""The codes of so many columns are held at once."""
_EXACT = 2**24
_HALF = 0.5
_ALIKE = 0.8
_MISSING = int(np.array(np.nan).view(np.int64))


class Equal:
    """A pair of columns, row by row: `idle` are rows in which both hold what they mostly do, and in all others in which
    neither is missing something is there to compare."""

    def __init__(self, one: tuple[Integers, int], other: tuple[Integers, int], blocks: Integers) -> None:
        """The codes of each, [n], with the one that it mostly holds, and the places of rows' blocks, [n]."""
        (mine, usual), (theirs, its) = one, other
        self._codes = mine, theirs
        self._blocks = blocks
        self._usual = usual if usual == its else None
        self._there = (mine != _MISSING) & (theirs != _MISSING)
        idle = self._there & (mine == self._usual) & (theirs == self._usual)
        self.idle = int(idle.sum())
        self._compared = self._there & ~idle
        self._equal = self._compared & (mine == theirs)

    @property
    def compared(self) -> Integers:
        """Rows in which something is there to compare, by block."""
        return np.bincount(self._blocks[self._compared]).astype(np.int64)

    @property
    def equal(self) -> Integers:
        """Those of them that are equal, by block."""
        return np.bincount(self._blocks[self._equal], minlength=len(self.compared)).astype(np.int64)

    @property
    def by_chance(self) -> float:
        """The share of the compared that would be equal had values been shuffled."""
        return self._shuffled(self._there)

    @property
    def several(self) -> float:
        """The share that is equal beyond chance, among rows without the value that most equal rows hold."""
        one, other = self._codes
        most = _mode(one[self._equal])
        rest = self._there & (one != most) & (other != most)
        return float(self._equal[rest].sum()) / max(int(self._compared[rest].sum()), 1) - self._shuffled(rest)

    def _shuffled(self, rows: Mask) -> float:
        one, other = (codes[rows] for codes in self._codes)
        values, n = np.unique(one, return_counts=True)
        others, m = np.unique(other, return_counts=True)
        same, mine, its = np.intersect1d(values, others, assume_unique=True, return_indices=True)
        equal = n[mine] / max(len(one), 1) * m[its] / max(len(one), 1)
        idle = float(equal[same == self._usual].sum())
        return (float(equal.sum()) - idle) / max(1 - idle, 1e-9)


@dataclass(frozen=True, slots=True)
class Screened:
    """Of a few rows: what each column mostly holds, [C], how many hold anything, and how many of these something else,
    which tells; and those of each pair (first, second) in which something is there to compare, and that are equal,
    [C, C]."""

    names: Sequence[str]
    usual: Integers
    filled: Integers
    telling: Integers
    compared: npt.NDArray[np.int16]
    equal: npt.NDArray[np.int16]

    def pairs(self, least: float, telling: int = 0, most: int | None = None) -> Iterator[tuple[str, str, float]]:
        """The `most` pairs that agree best, in a share of `least` or more, where so many rows are telling of one."""
        shares = np.divide(self.equal, np.maximum(self.compared, 1), dtype=np.float64)
        tells = self.telling >= telling
        firsts, seconds = np.nonzero((self.equal > 0) & (shares >= least) & (tells[:, None] | tells))
        found = shares[firsts, seconds]
        for place in np.argsort(-found, kind="stable")[:most].tolist():
            yield self.names[firsts[place]], self.names[seconds[place]], float(found[place])


class Comparable:
    """Columns of one kind, numbers or texts, of rows that were read, as codes that are alike where values are, [n]."""

    def __init__(self, read: Rows, carried: Mapping[str, str]) -> None:
        """`carried` are the columns of `read` by the names of features."""
        self._read = read
        self._columns = {name: read.columns[column] for name, column in carried.items()}
        self._known: dict[str, tuple[Integers, int]] = {}
        self._some = _chosen(len(read.day), _COUNTED)

    @property
    def names(self) -> list[str]:
        """The features."""
        return [*self._columns]

    def screened(self) -> Screened:
        """Each pair, in a few rows."""
        size = len(self._columns)
        codes = np.stack([_codes(one, _chosen(len(self._read.day), _few(size))) for one in self._columns.values()])
        usual = np.array([_mode(one) for one in codes])
        compared, equal = np.zeros((2, size, size), dtype=np.int16)
        for place in range(size - 1):
            rest = slice(place + 1, None)
            compared[place, rest], equal[place, rest] = _beside(codes[place], usual[place], codes[rest], usual[rest])
        there = codes != _MISSING
        telling = (there & (codes != usual[:, None])).sum(axis=1)
        return Screened(self.names, usual, there.sum(axis=1), telling, compared, equal)

    def add_rare(self, seen: Screened) -> set[str]:
        """Puts what rows say that fill a column where too few of those `seen` do to hold it against another such one.
        Returns the columns that hardly any row fills, or of which there are too many to look at each."""
        size, left = len(self._columns), set[str]()
        rows = min(len(self._read.day), _few(size))
        rare = [one for one in np.argsort(seen.filled).tolist() if seen.filled[one] ** 2 < _TELLING * rows]
        for done, place in enumerate(rare):
            there = np.flatnonzero(self._columns[seen.names[place]].place >= 0)
            if len(there) >= _TELLING and (done + 1) * size <= _SEARCHED:
                self._add(seen, place, there[_chosen(len(there), _few(size))])
            elif seen.filled[place] < _TELLING:
                left.add(seen.names[place])
        return left

    def _add(self, seen: Screened, place: int, rows: Integers) -> None:
        """Puts what so many rows say of a column, where more of them say something of a pair."""
        codes = np.stack([_codes(one, rows) for one in self._columns.values()])
        n, k = _beside(codes[place], _mode(codes[place]), codes, seen.usual)
        every = np.arange(len(codes))
        pairs = np.minimum(every, place), np.maximum(every, place)
        more = (n > seen.compared[pairs]) & (every != place)
        seen.compared[pairs] = np.where(more, n, seen.compared[pairs])
        seen.equal[pairs] = np.where(more, k, seen.equal[pairs])

    def equal(self, first: str, second: str) -> Equal:
        """A pair, in all rows or many of them."""
        return Equal(self._code(first), self._code(second), self._read.day[self._some])

    def _code(self, name: str) -> tuple[Integers, int]:
        """A column's codes, and the one that it mostly holds; those of the latest columns are kept."""
        if name not in self._known:
            if len(self._known) >= _HELD:
                del self._known[next(iter(self._known))]
            codes = _codes(self._columns[name], self._some)
            self._known[name] = codes, _mode(codes)
        return self._known[name]


def comparable(read: Rows, carried: Mapping[str, str]) -> Iterator[Comparable]:
    """The numbers, and the texts, of the columns of `read`, named as in `Comparable`, where there are two at least."""
    for texts in (False, True):
        same = {
            name: column for name, column in carried.items() if (read.columns[column].values.dtype == object) == texts
        }
        if len(same) > 1:
            yield Comparable(read, same)


def agreements_of(read: Rows, names: Sequence[str]) -> Agreements:
    """What training's columns agree in."""
    told, rare = set[str](), set[str]()
    found: list[Agreement] = []
    floor = _FLOOR
    for kind in comparable(read, {name: name for name in names}):
        screened = kind.screened()
        rare |= kind.add_rare(screened)
        told |= {name for name, rows in zip(kind.names, screened.telling.tolist(), strict=True) if rows >= _TELLING}
        near = [*screened.pairs(_LISTED, _TELLING, _KEPT + 1)]
        floor = max([floor, *(share for *_, share in near[_KEPT:])])
        found += [_agreement(first, second, kind) for first, second, _ in sorted(near[:_KEPT])]
    return Agreements(frozenset(told), floor, tuple(found), frozenset(rare))


def _agreement(first: str, second: str, kind: Comparable) -> Agreement:
    equal = kind.equal(first, second)
    shares = [k / n for n, k in _stretches(equal)]
    return Agreement(first, second, min(shares, default=0.0), max(shares, default=1.0))


def _stretches(equal: Equal) -> Iterator[tuple[int, int]]:
    """Rows compared and equal of blocks, of which those of few rows are taken together with the next ones."""
    compared = same = 0
    for n, k in zip(equal.compared.tolist(), equal.equal.tolist(), strict=True):
        compared, same = compared + n, same + k
        if compared >= LEAST_ROWS:
            yield compared, same
            compared = same = 0


def _chosen(rows: int, most: int) -> Any:
    """A repeatable choice of rows, all where these are few."""
    return slice(None) if rows <= most else np.sort(np.random.default_rng(7).choice(rows, most, replace=False))


def _few(columns: int) -> int:
    """In how many rows so many columns are compared with each other."""
    return int(np.clip(_COMPARED // max(columns, 1) ** 2, _FEWEST, _MOST))


def _beside(codes: Integers, usual: int, others: Integers, theirs: Integers) -> tuple[Integers, Integers]:
    """Rows in which something is there to compare of a column, [n], and each of C others, [C, n], and the equal ones of
    them, [C]; `usual` and `theirs` are what they mostly hold."""
    idle = (codes == usual) & (others == theirs[:, None]) & (theirs == usual)[:, None]
    both = (codes != _MISSING) & (others != _MISSING) & ~idle
    return both.sum(axis=1), (both & (codes == others)).sum(axis=1)


def _codes(column: ReadColumn, rows: Any) -> Integers:
    """Codes of some rows: the bits of numbers, and hashes of texts."""
    held, at = np.unique(column.place[rows], return_inverse=True)
    codes = np.full(len(held), _MISSING, dtype=np.int64)
    codes[held >= 0] = _coded(column.values[held[held >= 0]])
    return codes[at]


def _coded(values: Floats | npt.NDArray[np.object_]) -> Integers:
    if values.dtype == object:
        return np.fromiter(map(hash, values), np.int64, len(values))
    numbers = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32).astype(np.float64)
    # A column of 32 bits holds other values of 64 bits alike; ids and times keep all their digits.
    return np.where(np.abs(numbers) < _EXACT, narrow, numbers).view(np.int64)


def _mode(codes: Integers) -> int:
    """The code that most rows have, that of missing values where all are."""
    found, n = np.unique(codes[codes != _MISSING], return_counts=True)
    return int(found[n.argmax()]) if len(found) else _MISSING


def goes_with(read: Rows, first: str, second: str) -> bool:
    """Whether a column of `read` may hold what the second one does, if in other digits: numbers go with each other's,
    and texts are equal. True where too few rows have both."""
    one, other = read.columns[first], read.columns[second]
    there = (one.place >= 0) & (other.place >= 0)
    if int(there.sum()) < LEAST_ROWS or (one.values.dtype == object) != (other.values.dtype == object):
        return True
    places = one.place[there], other.place[there]
    if one.values.dtype == object:
        return bool(np.mean(one.values[places[0]] == other.values[places[1]]) >= _HALF)
    if min(np.ptp(places[0]), np.ptp(places[1])) == 0:
        return True
    return abs(float(np.corrcoef(*places)[0, 1])) >= _ALIKE  # Places are values' order.
