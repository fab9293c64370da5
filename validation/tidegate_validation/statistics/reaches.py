"""How far training's own blocks went beyond all before them, as counters, rising prices and seasons go on and on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.sample import ValueSample

_OF_TRAINING = 3

Reaches = tuple[tuple[float, ...], tuple[float, ...]]
"""Of values below the range of all blocks before, and of those above it: shares of the rows in stretches of 1, 2, 4,
... blocks of training's later half, all of them held against the blocks before their stretch."""


def reaches_of(sample: ValueSample) -> Reaches:
    """The reaches of a reference column."""
    if not len(sample.values):
        return (), ()
    day = sample.day
    return _above(-sample.values[::-1], day[::-1], sample.n[::-1]), _above(sample.values, day, sample.n)


def _above(values: Floats, day: Integers, n: Integers) -> tuple[float, ...]:
    """Of ascending values, the shares that lie above all blocks before."""
    sizes = np.bincount(day, weights=n.astype(np.float64))
    blocks = len(sizes)
    highest = np.empty(blocks)
    highest[day] = values  # The last one that a block has is its highest.
    before = np.concatenate([[-np.inf], np.maximum.accumulate(highest)[:-1]])
    # What the first half's blocks reached, no later stretch goes beyond.
    first = int(np.searchsorted(values, before[blocks // 2], side="right"))
    values, day, n = values[first:], day[first:], n[first:]
    found = []
    for length in stretches(blocks):
        begin = blocks - length * max(blocks // 2 // length, 1)
        stretch = blocks - length * ((blocks - 1 - day) // length + 1)
        new = (day >= begin) & (values > before[np.maximum(stretch, 0)])
        found.append(float(n[new].sum() / sizes[begin:].sum()))
    return tuple(found)


def stretches(blocks: int) -> list[int]:
    """1, 2, 4, ... up to a third of so many blocks."""
    return [2**place for place in range(max(blocks // _OF_TRAINING, 1).bit_length())]


def share_of(shares: Sequence[float], blocks: int) -> float:
    """The share that a stretch of so many blocks has, from those of 1, 2, 4, ... of them: it grows with time no faster
    than in proportion. 0 where none is known."""
    known = [share for place, share in enumerate(shares) if 2**place <= blocks]
    return min(1.0, known[-1] * blocks / 2 ** (len(known) - 1)) if known else 0.0
