"""How far training's own days are from each other, in a row and drawn at random: a check on any formula for how days
differ."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from tidegate_validation.skew.measures.likeness import Timeline
from tidegate_validation.statistics.arrays import Floats

_LONGEST = 3
_USUAL = 0.95
_DRAWS = 600
_FEWER = 0.7


@dataclass(frozen=True, slots=True)
class Runs:
    """How far runs of the reference's own days are from the rest of it: an empirical check on the formula.

    Days that follow each other resemble each other, which no formula for independent days knows. So no window is called
    shifted that is no further away than training's own weeks and storms are from each other.

    Of `count` runs of reference blocks as long as the window, `further` are at least as far from the rest as it is.

    `usual` is the distance that 19 of 20 runs keep below; 0 without runs. Of `drawn` other windows of days drawn at
    random from all days, the window's own among them, with as many rows as the window has, `drawn_further` are at least
    as far out: days with a storm are rare and far out, which no formula for bell-shaped days knows, and a window that
    holds the worst storm of all is no further out than others that might have held it. A window of one day is held
    against the reference alone.
    """

    count: int = 0
    further: int = 0
    usual: float = 0.0

    drawn: int = 0
    drawn_further: int = 0

    @property
    def p_value(self) -> float:
        """Probability of a run, or of as many days drawn at random, this far out, where some were.

        0 where none was, for then only a formula can say."""
        in_a_row = (1 + self.further) / (1 + self.count) if self.further else 0.0
        at_random = (1 + self.drawn_further) / (1 + self.drawn) if self.drawn_further else 0.0
        return max(in_a_row, at_random)


def runs_of(reference: Floats, current: Floats, line: Timeline, delta: float) -> Runs:
    """Compares a window `current`, shape [J, K], at distance `delta` with runs of days, of `reference`, shape [B, K].

    Runs hold days of the window too, where those lie among or beside the reference's, but no more than half of them:
    one with nearly all of the window is no other run. Runs with less than half the window's rows do not count; neither
    does anything where fewer than three runs would fit into the reference without overlap.
    """
    blocks, rows = len(current), float(current.sum())
    if blocks * _LONGEST > len(reference) or blocks == 0:
        return Runs()
    days = _alike(reference, current)
    order = np.lexsort((line.inside, line.days))
    inside, theirs = _sums(days[order], blocks), _sums(line.inside[order].astype(np.float64)[:, None], blocks)[:, 0]
    outside = days.sum(axis=0) - inside
    inside_rows, outside_rows = inside.sum(axis=1), outside.sum(axis=1)
    usable = (inside_rows >= rows / 2) & (outside_rows > 0) & (2 * theirs <= blocks)
    if not (usable & (theirs == 0)).any():
        return Runs()
    distances = _distances(inside[usable] / inside_rows[usable, None], outside[usable] / outside_rows[usable, None])
    drawn = _drawn(days if blocks > 1 else reference, len(reference), blocks, rows)
    return Runs(
        len(distances),
        int((distances >= delta).sum()),
        float(np.quantile(distances[theirs[usable] == 0], _USUAL)),
        len(drawn),
        int((drawn >= delta).sum()),
    )


def _alike(reference: Floats, current: Floats) -> Floats:
    """All days, those of the window with the rows of a usual day of the reference, so that they weigh what those do."""
    usual = float(reference.sum() / len(reference))
    return np.concatenate([reference, current * (usual / np.maximum(current.sum(axis=1, keepdims=True), 1.0))])


def _sums(days: Floats, length: int) -> Floats:
    """Sums over each run of so many days."""
    total = np.concatenate([np.zeros((1, days.shape[1])), np.cumsum(days, axis=0)])
    return np.asarray(total[length:] - total[:-length])


def _distances(q: Floats, p: Floats) -> Floats:
    pi = np.maximum((p + q) / 2, 1e-12)
    return np.asarray(np.sqrt(((p - q) ** 2 / pi).sum(axis=1)))


def _drawn(days: Floats, before: int, blocks: int, rows: float) -> Floats:
    """Distances of windows of as many days, drawn at random and thinned to as many rows, from the other days; a draw
    of all days from `before` on is the window itself, which says nothing of others."""
    chosen = _choices(len(days), blocks)
    inside = chosen[chosen[:, before:].sum(axis=1) < blocks] @ days
    outside = days.sum(axis=0) - inside
    sizes = inside.sum(axis=1)
    shares = inside / sizes[:, None]
    fewer = rows < _FEWER * float(np.median(sizes))
    q = np.random.default_rng(11).multinomial(int(rows), shares) / rows if fewer else shares
    return _distances(q, outside / outside.sum(axis=1, keepdims=True))


@functools.lru_cache(maxsize=32)
def _choices(days: int, blocks: int) -> Floats:
    """Which of so many days each draw takes, 1 or 0, shape [draws, days]; the same for all columns of a table."""
    chosen = np.argsort(np.random.default_rng(11).random((_DRAWS, days)), axis=1)[:, :blocks]
    found = np.zeros((_DRAWS, days))
    np.put_along_axis(found, chosen, 1.0, axis=1)
    return found
