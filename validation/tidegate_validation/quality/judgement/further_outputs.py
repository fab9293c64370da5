"""Holds the outputs beside the prediction against the baseline's: no label says what is right for them, but of bounds.

A retrain moves them a little. What a mistake does shows on the same rows: one that is constant now, outputs that are
swapped, on all rows or on some, another unit, answers that lie elsewhere or have nothing to do any more with those of
before, and bounds that lie far nearer together, or further apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.metrics.gains import SERVING
from tidegate_validation.statistics.arrays import Floats

CHECK = "outputs"
_LEAST_ROWS = 50
_SAME = 1e-6
_THERE = 0.5
_MOSTLY = 0.9
"""What the baseline answers alike for so many rows tells nothing of what the candidate should."""
_NEARER = 0.5
"""Outputs are swapped where each lies so much nearer to another one's answers of before than to its own."""
_FACTOR, _ALIKE = 1.5, 0.8
"""A unit is at least such a factor, by which so many rows changed, each within half of its logarithm."""
_FEW = 20
"""Whole numbers of so few values may be names of classes, whose order says nothing."""
_BEYOND = 0.5
_RELATED, _UNRELATED = 0.5, 0.2
_BINS, _IN_BIN = 20, 10
_ALWAYS, _CROSSED = 0.999, 0.02
"""One output is below another one where it is so for such a share of the rows; more than the other share is a fault."""
_APART = 2.0
_HOLD, _AS_BEFORE = 0.2, 0.05
"""Bounds that hold such a share of the labels or more bound these, and may move where they still do by the other."""
_Outputs = Mapping[str, Floats]


def judge_further_outputs(
    candidate: _Outputs, baseline: _Outputs, prediction: str, labels: Floats | None = None
) -> list[Finding]:
    """A WARN for each output but the `prediction` that is no longer what it was, or for several that are swapped.

    Both hold the same outputs of the same rows, shape [n, k]; the prediction among them where it has numbers. `labels`
    of these rows, shape [n], are numbers that outputs may bound.
    """
    candidate = {name: values for name, values in candidate.items() if _are_there(values, baseline[name])}
    if not candidate.keys() - {prediction}:
        return []
    baseline = {name: baseline[name] for name in candidate}
    every = [values for outputs in (candidate, baseline) for values in outputs.values()]
    rows = np.all([np.isfinite(values).all(axis=1) for values in every], axis=0)
    if rows.sum() < _LEAST_ROWS:
        return []
    mine = {name: values[rows].astype(np.float64) for name, values in candidate.items()}
    theirs = {name: values[rows].astype(np.float64) for name, values in baseline.items()}
    others = [name for name in mine if name != prediction and _varied(theirs[name])]
    found = {name: told for name in others if (told := _constant(name, mine[name], theirs[name])) is not None}
    swapped = _swapped({name: values for name, values in mine.items() if name not in found}, theirs)
    moved = {name for cycle in swapped for name in cycle}
    usual = _factor(mine[prediction], theirs[prediction]) if prediction in mine else None
    for name in others:
        if name in found or name in moved or _are_names(candidate[name], baseline[name]):
            continue
        told = (
            _another_unit(name, mine[name], theirs[name], usual)
            or _elsewhere(name, mine[name], theirs[name])
            or _unrelated(name, mine, theirs, prediction)
        )
        if told is not None:
            found[name] = told
    bounds = [name for name in mine if name not in found and name not in moved and mine[name].shape[1] == 1]
    bounds = [name for name in bounds if not _are_names(candidate[name], baseline[name]) and _varied(theirs[name])]
    known = None if labels is None else labels[rows]
    pairs = _in_order({name: mine[name] for name in bounds}, theirs, known) if usual is None else []
    return [*(_of_cycle(cycle) for cycle in swapped), *found.values(), *pairs]


def _are_there(*arrays: np.ndarray) -> bool:
    """Whether most rows of each are numbers."""
    return all(np.isfinite(array).all(axis=1).sum() >= _THERE * len(array) for array in arrays)


def _are_names(*arrays: np.ndarray) -> bool:
    return any(array.dtype.kind in "iub" and len(np.unique(array)) <= _FEW for array in arrays)


def _varied(values: Floats) -> bool:
    _, counts = np.unique(values, axis=0, return_counts=True)
    return bool(counts.max() <= _MOSTLY * len(values))


def _constant(name: str, mine: Floats, theirs: Floats) -> Finding | None:
    room = _SAME * max(float(np.ptp(theirs, axis=0).max()), _SAME * float(np.abs(theirs).max()))
    if np.ptp(mine, axis=0).max() > room:
        return None
    answer = ", ".join(f"{value:.6g}" for value in mine[0][:4])
    sentence = (
        f"the output `{name}` is constant, {answer}, for all {len(mine):,} held-out examples compared; those of "
        f"{SERVING} differ"
    )
    return _finding(name, sentence, {"kind": "constant"})


def _swapped(mine: _Outputs, theirs: _Outputs) -> list[dict[str, str]]:
    """For each cycle what its outputs answer: the name that this had before."""
    nearest = {name: _nearest(name, mine[name], theirs) for name in mine}
    found: list[dict[str, str]] = []
    seen: set[str] = set()
    for start in mine:
        cycle, name = [start], nearest[start]
        while name is not None and name in mine and name not in cycle:
            cycle.append(name)
            name = nearest[name]
        if len(cycle) > 1 and name == start and start not in seen:
            seen.update(cycle)
            found.append({one: str(nearest[one]) for one in cycle})
    return found


def _nearest(name: str, values: Floats, theirs: _Outputs) -> str | None:
    """The output whose answers of before lie far nearer to these than those of the same name."""
    own = float(np.abs(values - theirs[name]).mean())
    others = {
        other: float(np.abs(values - before).mean())
        for other, before in theirs.items()
        if other != name and before.shape == values.shape
    }
    best = min(others, key=lambda other: others[other], default=None)
    return best if best is not None and others[best] < _NEARER * own else None


def _of_cycle(answered: dict[str, str]) -> Finding:
    names = list(answered)
    if len(names) == 2:
        what = f"the output `{names[0]}` is swapped with `{names[1]}`: each lies"
    else:
        shown = ", ".join(f"`{name}` answers what was `{before}`" for name, before in answered.items())
        what = f"outputs are in another order: {shown}; each lies"
    sentence = f"{what} far nearer to the other's answers of {SERVING} than to its own"
    return _finding(", ".join(names), sentence, {"kind": "swapped", "outputs": answered})


def _factor(mine: Floats, theirs: Floats) -> float | None:
    """By which nearly all answers were multiplied, where it is as large as that of a unit, or turns the sign."""
    if mine.shape != theirs.shape:
        return None
    used = (mine != 0) & (theirs != 0)
    if used.sum() < _LEAST_ROWS or used.mean() < _ALIKE:
        return None
    ratios = mine[used] / theirs[used]
    factor = float(np.median(ratios))
    if factor < 0:
        return factor if mine.shape[1] == 1 and (ratios < 0).mean() >= _ALIKE else None
    size = abs(float(np.log(factor)))
    within = (ratios > factor * np.exp(-size / 2)) & (ratios < factor * np.exp(size / 2))
    return factor if size >= np.log(_FACTOR) and within.mean() >= _ALIKE else None


def _another_unit(name: str, mine: Floats, theirs: Floats, usual: float | None) -> Finding | None:
    """Unless the prediction, which labels judge, moved by as much."""
    factor = _factor(mine, theirs)
    if factor is None or (usual is not None and abs(factor / usual - 1) < 1 - 1 / _FACTOR):
        return None
    sentence = f"the output `{name}` is {factor:.4g} times that of {SERVING}: another unit?"
    return _finding(name, sentence, {"kind": "factor", "factor": factor})


def _elsewhere(name: str, mine: Floats, theirs: Floats) -> Finding | None:
    """Where single numbers lie further from all of before than these reach."""
    low, high = float(theirs.min()), float(theirs.max())
    room = (high - low) / 2
    share = float(((mine < low - room) | (mine > high + room)).mean())
    if mine.shape[1] != 1 or not room or share < _BEYOND:
        return None
    sentence = (
        f"the output `{name}` lies beyond that of {SERVING} ({low:.4g} to {high:.4g}) for {100 * share:.0f} % of the "
        f"held-out examples: its median is {float(np.median(mine)):.4g} in place of {float(np.median(theirs)):.4g}"
    )
    return _finding(name, sentence, {"kind": "beyond"}, share)


def _unrelated(name: str, mine: _Outputs, theirs: _Outputs, prediction: str) -> Finding | None:
    """Where single numbers went with the prediction, and go neither with that nor with those of before."""
    if prediction not in mine or mine[prediction].shape[1] != 1 or mine[name].shape[1] != 1:
        return None
    before, now = (_goes_with(one[name], one[prediction]) for one in (theirs, mine))
    alike = _ranked(mine[name], theirs[name])
    if before < _RELATED or now >= _UNRELATED or abs(alike) >= _UNRELATED:
        return None
    sentence = (
        f"the output `{name}` has little to do with that of {SERVING} (rank correlation {alike:.2f}), and no longer "
        f"goes with the prediction `{prediction}` ({now:.2f} in place of {before:.2f})"
    )
    return _finding(name, sentence, {"kind": "unrelated"}, alike)


def _in_order(mine: _Outputs, theirs: _Outputs, labels: Floats | None) -> list[Finding]:
    """Of two outputs that go together, of which the baseline has one below the other: where they cross now, else where
    they lie nearer together or further apart, and hold more or fewer of the labels; of several pairs the one that
    changed most, and of those that changed alike the outer one."""
    crossed, apart = dict[tuple[str, str], float](), dict[tuple[str, str], float]()
    for low, high in itertools.permutations(mine, 2):
        before, now = theirs[high] - theirs[low], mine[high] - mine[low]
        overlapping = theirs[low].max() > theirs[high].min() and _ranked(theirs[low], theirs[high]) >= _RELATED
        if (before > 0).mean() < _ALWAYS or not overlapping:
            continue
        crossed[low, high] = float((now < 0).mean())
        factor = _factor(now, before)
        if factor is not None and factor > 0 and not _hold_as_before((low, high), mine, theirs, labels):
            apart[low, high] = factor
    pair = max(crossed, key=lambda one: (round(crossed[one], 2), _distance(one, theirs)), default=None)
    if pair is not None and crossed[pair] > _CROSSED:
        share = crossed[pair]
        sentence = (
            f"the output `{pair[0]}` lies above `{pair[1]}` for {100 * share:.0f} % of the held-out examples, that of "
            f"{SERVING} below: are they crossed?"
        )
        return [_finding(", ".join(pair), sentence, {"kind": "crossed"}, share)]
    pair = max(apart, key=lambda one: (round(abs(np.log(apart[one])), 1), _distance(one, theirs)), default=None)
    if pair is None or 1 / _APART < apart[pair] < _APART:
        return []
    sentence = f"the outputs `{pair[0]}` and `{pair[1]}` lie {apart[pair]:.3g} times as far apart as those of {SERVING}"
    if labels is None:
        sentence += ": see that they still bound what they are to bound"
    else:
        holds, held = _held(pair, mine, labels), _held(pair, theirs, labels)
        sentence += f": they hold {100 * holds:.0f} % of the labels, {100 * held:.0f} % before"
    return [_finding(", ".join(pair), sentence, {"kind": "apart", "factor": apart[pair]})]


def _hold_as_before(pair: tuple[str, str], mine: _Outputs, theirs: _Outputs, labels: Floats | None) -> bool:
    """Whether as many labels as before lie between two outputs, and that many that these are to bound them."""
    if labels is None:
        return False
    before = _held(pair, theirs, labels)
    return before >= _HOLD and abs(_held(pair, mine, labels) - before) <= _AS_BEFORE


def _distance(pair: tuple[str, str], outputs: _Outputs) -> float:
    return float((outputs[pair[1]] - outputs[pair[0]]).mean())


def _held(pair: tuple[str, str], outputs: _Outputs, labels: Floats) -> float:
    low, high = (outputs[name][:, 0] for name in pair)
    return float(((low <= labels) & (labels <= high)).mean())


def _goes_with(one: Floats, other: Floats) -> float:
    """How much of an output's order another one tells, rising, falling or neither: 0 for nothing, 1 for all."""
    from scipy import stats

    bins = min(_BINS, len(one) // _IN_BIN)
    ranks = stats.rankdata(one[:, 0])
    _, place = np.unique((stats.rankdata(other[:, 0]) - 1) * bins // len(other), return_inverse=True)
    count = np.bincount(place)
    means = np.bincount(place, weights=ranks) / count
    told = float((count * (means - ranks.mean()) ** 2).sum() / max(float(((ranks - ranks.mean()) ** 2).sum()), 1.0))
    chance = (len(count) - 1) / (len(ranks) - 1)
    return max(abs(_ranked(one, other)), float(np.sqrt(max(told - chance, 0.0))))


def _ranked(one: Floats, other: Floats) -> float:
    from scipy import stats

    if not np.ptp(one) or not np.ptp(other):
        return 0.0
    return float(stats.spearmanr(one[:, 0], other[:, 0]).statistic)


def _finding(name: str, sentence: str, cause: dict[str, object], number: float | None = None) -> Finding:
    return Finding(CHECK, name, Outcome.WARN, sentence, number=number, cause=cause)
