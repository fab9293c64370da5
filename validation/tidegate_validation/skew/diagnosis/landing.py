"""Finds a factor or an offset by the values themselves: where training knows few values, served ones must land on them.

A day's mix of values does not matter here, only which values there are, so one day gives a factor to many digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers, Mask

EXACT = 3e-6
_FINE = 4e-6
_COARSE = 2e-3
_FREQUENT = 80
_KNOWN = 500
_TRIED = 24
_DENSE = 0.7
_HALF = 0.5
_TELLING_VALUES = 4
_APART = 0.2
_QUANTA = (1.0, 0.1, 0.01)
_MOVES = (-7, -3, -1, 1, 3, 7)


@dataclass(frozen=True, slots=True)
class Match:
    """Served values are `factor` times a training value plus `offset`, for `share` of the rows; `chance` is what any
    other factor or offset nearby would reach, `precision` the relative error of the factor. `covered` is the share of
    training's rows, between the lowest and highest value landed on, whose value was landed on by something. Values may
    lie off by `slack`, as those that were rounded do."""

    factor: float
    offset: float
    share: float
    chance: float
    precision: float
    covered: float
    slack: float


def find_factor(values: Floats, weights: Floats, known: Floats, known_weights: Floats) -> Match | None:
    """The factor under which the most served rows land on known values; None when no factor beats chance.

    `values` and `known` are distinct, finite and sorted, `weights` are shares of rows; zeros say nothing and are left
    out. Tries exact landing first, then landing within the rounding of the served values.
    """
    keep, known_keep = values != 0, known != 0
    values, weights, known, known_weights = values[keep], weights[keep], known[known_keep], known_weights[known_keep]
    if not len(values) or not len(known):
        return None
    best: Match | None = None
    for slack in (0.0, *_rounding(values)):
        candidates = _vote_factor(values, weights, known, known_weights, _FINE if slack == 0 else _COARSE)
        found = _best(values, weights, known, known_weights, [(factor, 0.0) for factor in candidates], slack)
        if found is not None and (best is None or found.share - best.share > _APART):
            best = found
        if best is not None and best.share > 1 - _APART:
            break
    return best


def find_offset(values: Floats, weights: Floats, known: Floats, known_weights: Floats) -> Match | None:
    """The offset under which the most served rows land on known values.

    None when none beats chance, or when another does nearly as well: on an even grid every multiple of its step does.
    """
    if not len(values) or not len(known):
        return None
    frequent, common = _top(values, weights, _FREQUENT), _top(known, known_weights, _KNOWN)
    scale = float(np.max(np.abs(known))) or 1.0
    gaps = (frequent[0][:, None] - common[0][None, :]).ravel()
    votes = np.repeat(frequent[1], len(common[0]))
    candidates = _peaks(gaps / scale, votes, _FINE)
    offsets = [(1.0, gap * scale) for gap in candidates if abs(gap) > 10 * _FINE]
    found = _best(values, weights, known, known_weights, offsets, 0.0)
    if found is None:
        return None
    shares = [landing(values, weights, known, 1.0, offset, 0.0) for _, offset in offsets]
    return None if sum(share > found.share - _APART for share in shares) > 1 else found


def landing(values: Floats, weights: Floats, known: Floats, factor: float, offset: float, slack: float) -> float:
    """Share of rows whose value, with factor and offset undone, is a known value to six digits or within `slack`."""
    hit, _ = _land(values, known, factor, offset, slack)
    return float(weights[hit].sum() / weights.sum())


def lands(values: Floats, known: Floats, factor: float) -> Mask:
    """Which values are known ones with the factor undone, to six digits."""
    return _land(values, known, factor, 0.0, 0.0)[0]


def newly_landing(values: Floats, known: Floats, factor: float, offset: float, slack: float) -> int:
    """How many more of the distinct `values` are known values with factor and offset undone than as they are."""
    return int(_land(values, known, factor, offset, slack)[0].sum() - _land(values, known, 1.0, 0.0, 0.0)[0].sum())


def coverage(values: Floats, known: Floats, known_weights: Floats, factor: float, offset: float, slack: float) -> float:
    """Share of training's rows, between the lowest and highest value landed on, whose value was landed on."""
    hit, place = _land(values, known, factor, offset, slack)
    if not hit.any():
        return 0.0
    used = np.unique(place[hit])
    return float(known_weights[used].sum() / known_weights[used[0] : used[-1] + 1].sum())


def _land(values: Floats, known: Floats, factor: float, offset: float, slack: float) -> tuple[Mask, Integers]:
    """Which values land, and the place of the known value nearest to each."""
    undone = (values - offset) / factor
    right = np.minimum(np.searchsorted(known, undone), len(known) - 1)
    left = np.maximum(right - 1, 0)
    place = np.where(np.abs(undone - known[left]) < np.abs(undone - known[right]), left, right)
    room = EXACT * np.maximum(np.abs(undone), np.abs(offset / factor)) + slack / abs(factor)
    return np.abs(undone - known[place]) <= room, place.astype(np.int64)


def _best(
    values: Floats,
    weights: Floats,
    known: Floats,
    known_weights: Floats,
    candidates: list[tuple[float, float]],
    slack: float,
) -> Match | None:
    if len(values) < min(_TELLING_VALUES, len(known)):
        return None
    found = []
    for factor, offset in candidates:
        share = landing(values, weights, known, factor, offset, slack)
        if share <= _HALF:
            continue  # Whatever chance does, this is not halfway from it to all rows.
        nearby = chance(values, weights, known, factor, offset, slack)
        precision = slack / float(np.average(np.abs(values), weights=weights)) if slack else EXACT
        covered = coverage(values, known, known_weights, factor, offset, slack)
        found.append(Match(factor, offset, share, nearby, precision, covered, slack))
    good = [one for one in found if one.share - one.chance > _HALF * (1 - one.chance) and one.chance < _DENSE]
    return max(good, key=lambda match: (round(match.share, 2), match.covered), default=None)


def chance(values: Floats, weights: Floats, known: Floats, factor: float, offset: float, slack: float) -> float:
    """What share lands under factors (or offsets) close by that mean nothing."""
    steps = np.concatenate([np.linspace(-0.21, -0.013, 12), np.linspace(0.011, 0.23, 12)]) * np.pi / 3
    if offset:
        width = float(known[-1] - known[0]) or 1.0
        nearby = [landing(values, weights, known, factor, offset + step * 0.1 * width, slack) for step in steps]
    else:
        nearby = [landing(values, weights, known, factor * float(np.exp(step)), 0.0, slack) for step in steps]
    return float(np.mean(nearby))


def of_any_digits(values: Floats, weights: Floats, known: Floats, factor: float, slack: float = 0.0) -> float:
    """What share of other values with as many digits would land, within the same `slack`: of training's tens, any whole
    number times ten is one, and says nothing about the factor."""
    moved = [
        landing(values + move * 2 * half, weights, known, factor, 0.0, slack)
        for half in _rounding(values)
        for move in _MOVES
    ]
    return float(np.mean(moved)) if moved else 0.0


def _vote_factor(values: Floats, weights: Floats, known: Floats, known_weights: Floats, width: float) -> list[float]:
    found: list[float] = []
    for sign in (1.0, -1.0):
        frequent, common = _top(sign * values, weights, _FREQUENT), _top(known, known_weights, _KNOWN)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = np.log(frequent[0][:, None] / common[0][None, :]).ravel()
        votes = np.repeat(frequent[1], len(common[0]))
        usable = np.isfinite(ratios)
        found += [sign * float(np.exp(peak)) for peak in _peaks(ratios[usable], votes[usable], width)]
    return found


def _peaks(positions: Floats, votes: Floats, width: float) -> list[float]:
    """Places where most votes fall within `width`, each refined to the median of its votes."""
    if not len(positions):
        return []
    order = np.argsort(positions)
    positions, votes = positions[order], votes[order]
    total = np.concatenate([[0.0], np.cumsum(votes)])
    ends = np.searchsorted(positions, positions + width, side="right")
    heights = total[ends] - total[: len(positions)]
    size = ends - np.arange(len(positions))
    middles = (positions[ends - size // 2 - 1] + positions[ends - (size + 1) // 2]) / 2
    left = middles[np.argsort(-heights, kind="stable")]
    peaks: list[float] = []
    while len(left) and len(peaks) < _TRIED:
        peaks.append(float(left[0]))
        left = left[np.abs(left - left[0]) > 2 * width]
    return peaks


def _top(values: Floats, weights: Floats, count: int) -> tuple[Floats, Floats]:
    chosen = np.argsort(-weights, kind="stable")[:count]
    return values[chosen], weights[chosen]


def _rounding(values: Floats) -> list[float]:
    """Half the step to which the served values look rounded, or nothing."""
    for quantum in _QUANTA:
        scaled = values / quantum
        if np.all(np.abs(scaled - np.round(scaled)) < 1e-4 * np.maximum(1.0, np.abs(scaled) * 1e-3)):
            return [0.5 * quantum * 1.0001]
    return []
