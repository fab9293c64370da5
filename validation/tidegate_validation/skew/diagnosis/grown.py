"""Why a column that grows with time is elsewhere than its growth leads: another unit, moved, begun again, or one value.

A change counts as the cause only if undoing it brings values where growth leads, and as far from each other as the
values of a day were in training: a factor moves both, an offset leaves the second alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tidegate_validation.skew.diagnosis.beyond import NEW_VALUE
from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, OFFSET, Cause, is_usual
from tidegate_validation.skew.diagnosis.units import Conversion, affine, only_common, only_rare
from tidegate_validation.skew.measures.growth import Growth, scatter_within
from tidegate_validation.statistics.arrays import Floats, Integers, Mask

RESTARTED = "begun again"
_ALL = 0.95
_MOST = 0.9
_LEAST_ROWS = 8
_ONE_VALUE = 0.5
_FEWEST = 3
_SURELY = 3.0
_SNAP = 0.004
_VAGUE = 0.06
_ALIKE = 0.35
"""Logarithm by which the scatter of a day's values may differ from training's: a window has other hours than it."""
_AS_WELL = 0.2
_AS_FAST = 0.25
_VERY_VAGUE = 0.15
"""With a larger error of the factor, not even a common one is told; with one of `_VAGUE` no other is."""
_ROUND_ERROR = 1e-6


@dataclass(frozen=True, slots=True)
class _Values:
    """Values with the blocks and the numbers of rows that hold them, and where growth leads in each: its mean and the
    standard error of that; of shape [n]."""

    values: Floats
    blocks: Integers
    n: Floats
    mean: Floats
    error: Floats

    def of(self, kept: Mask) -> _Values:
        """Some of them."""
        return _Values(self.values[kept], self.blocks[kept], self.n[kept], self.mean[kept], self.error[kept])

    @property
    def rows(self) -> float:
        """How many rows hold them."""
        return float(self.n.sum())

    @property
    def scatter(self) -> float:
        """The usual standard deviation within a block."""
        return scatter_within(self.values, self.blocks, self.n)


def cause_of_growth(
    growth: Growth, values: Floats, blocks: Integers, n: Integers, ahead: Integers, away: Mask
) -> Cause | None:
    """The change of all values, else of those that are `away` from where growth leads, or None if none explains them;
    arrays of shape [n], `ahead` counts blocks from training's last one."""
    mean, error = growth.expected(ahead.astype(np.float64))
    everything = _Values(values, blocks, n.astype(np.float64), mean, error)
    strange = everything.of(away)
    different, places = np.unique(strange.values, return_inverse=True)
    weights = np.bincount(places, strange.n)
    if weights.max() > max(_ONE_VALUE * strange.rows, _FEWEST - 1) and strange.rows < _ALL * everything.rows:
        told = (("value", float(different[np.argmax(weights)])),)
        return Cause(NEW_VALUE, share=float(weights.max() / everything.rows), details=told)
    share = strange.rows / everything.rows
    if share > _MOST and _begins_again(growth, everything):
        return Cause(RESTARTED, share=share)
    found = _change(growth, everything)
    if found is not None:
        return found
    part = _change(growth, strange) if share < _ALL else None
    return None if part is None else replace(part, share=share)


def _begins_again(growth: Growth, now: _Values) -> bool:
    """Whether values grow on as fast as in training, from where they were when it began, or from zero."""
    first, last = now.blocks.min(), now.blocks.max()
    blocks = int(last - first) + 1
    begun = now.values[now.blocks == first]
    grown = (now.values.max() - now.values.min()) / (abs(growth.rate) * blocks)
    near = 2 * abs(growth.fastest) + 2 * growth.scatter
    from_there = min(float(np.abs(begun - at).max()) for at in (growth.start, 0.0)) <= near
    return from_there and bool(_AS_FAST < grown < 1 / _AS_FAST)


def _change(growth: Growth, now: _Values) -> Cause | None:
    """The change that explains the scatter of values clearly better than others do, or is the only usual one of
    several."""
    if now.rows < _LEAST_ROWS or growth.steps:
        return None  # What goes on by steps of many days, as months do, is given another unit by nobody.
    told = [(abs(growth.apart(now.scatter / abs(one.factor))), one) for one in _candidates(growth, now)]
    told = [(misfit, one) for misfit, one in told if misfit <= _ALIKE]
    least = min((misfit for misfit, _ in told), default=0.0)
    near = [one for misfit, one in told if misfit <= least + _AS_WELL]
    usual = [one for one in near if is_usual(one)]
    if len(usual) == 1:
        return usual[0]
    return near[0] if len({one.kind for one in near}) == 1 and not usual else None


def _candidates(growth: Growth, now: _Values) -> Iterator[Cause]:
    """Changes that bring the middle of values where growth leads, the plainest first: unusual ones only where the
    scatter of a day tells a factor from an offset."""
    yield from _factors(growth, now)
    for one in affine():
        if _comes_back(growth, now, one):
            yield Cause(OFFSET if one.factor == 1.0 else AFFINE, one.factor, one.offset, name=one.words)
    offset = _median(now.values - now.mean, now.n)
    if growth.fine and abs(offset) > _SURELY * _unsure(growth, now):
        yield Cause(OFFSET, offset=offset)


def _factors(growth: Growth, now: _Values) -> Iterator[Cause]:
    """The factor that the middle of values tells: the one with a name that its error allows, else as estimated."""
    error = _unsure(growth, now) / max(abs(_median(now.mean, now.n)), 1e-300)
    if error > _VERY_VAGUE or (now.mean == 0).any():
        return
    factor, room = _median(now.values / now.mean, now.n), max(_SNAP, _SURELY * error)
    if factor <= 0 or abs(np.log(factor)) <= room:
        return
    largest = max(abs(growth.start), abs(growth.end))
    named = only_common(factor, room, largest) or (only_rare(factor, room) if growth.fine else None)
    if named is not None:
        yield Cause(FACTOR, named.factor, precision=error, name=named.words or None)
    elif error <= _VAGUE and growth.fine:
        yield Cause(FACTOR, factor, precision=error)


def _comes_back(growth: Growth, now: _Values, one: Conversion) -> bool:
    back = _median((now.values - one.offset) / one.factor - now.mean, now.n)
    return abs(back) <= _SURELY * _unsure(growth, now) + _ROUND_ERROR


def _unsure(growth: Growth, now: _Values) -> float:
    """The standard error of the middle of a window's values, in training's unit."""
    blocks = len(np.unique(now.blocks))
    return float(np.hypot(_median(now.error, now.n), growth.scatter * 1.25 / min(now.rows, 10.0 * blocks) ** 0.5))


def _median(values: Floats, n: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(n[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
