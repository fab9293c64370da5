"""How days that follow each other hang together, and what that does to a difference between a window and other days.

A day's level is taken for a slow part, of which the next day keeps a share, and a part of its own. How large each is
nobody knows from a season of days, so all of a grid are tried and weighed by how well they explain the days: the test
of a window is the mean over them, as in Bayes' rule. The variance is so the long-run one where days hang together, and
the plain one where they do not.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Mask

_NEXT = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97)
_LASTING = (0.3, 0.6, 0.8, 0.999)
"""At 1 a window of training's own days would leave nothing to divide by."""
_MODELS = np.array([(0.0, 0.0), *itertools.product(_NEXT, _LASTING)])
_PRIOR = np.array([1.0 / len(_NEXT), *[1.0 / (len(_NEXT) * len(_LASTING))] * (len(_MODELS) - 1)])
_STEPS = 5
_CHUNKS = 1_000
"""Numbers of days since 1970 are larger; smaller ones are chunks of rows, which are no days that two tables share."""
_FAR = 100_000.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Days of the reference and then of the window: their numbers, which are `inside` the window, and their rows; not
    `by_day` where blocks of either are chunks of rows."""

    days: Floats
    inside: Mask
    sizes: Floats
    by_day: bool = True

    @classmethod
    def of(cls, days: Floats, sizes: Floats, now: Floats, inside: Floats) -> Timeline:
        """From the numbers and rows of the reference's days, and of the window's."""
        by_day = bool(min(days.min(), now.min()) >= _CHUNKS)
        return cls(
            np.concatenate([days, now if by_day else now + _FAR]),
            np.repeat([False, True], [len(days), len(now)]),
            np.concatenate([sizes, inside]),
            by_day,
        )


@dataclass(frozen=True, slots=True)
class Explained:
    """What each model, G of them, says about K series of days: the logarithm of its likelihood, shape [G, K]; the step
    between window and other days with its standard error, each [G, K]; `factor` the variance of the difference of
    plain means, and `own` that of the reference's mean, each [G], in units of one day's."""

    likelihood: Floats
    step: Floats
    error: Floats
    factor: Floats
    own: Floats
    freedom: int

    def weights(self, columns: Floats, prior: Floats | None = None) -> Floats:
        """How much to believe in each model, shape [G], where series count as much as `columns` says."""
        return _believed(self.likelihood @ columns, _PRIOR if prior is None else prior)

    def days_alone(self, days: int) -> Floats:
        """Degrees of freedom of a variance learnt from so many days, shape [G]: fewer where they hang together."""
        return _days_alone(days)


def _days_alone(days: int) -> Floats:
    alike, lasting = _MODELS.T
    repeated = lasting**2 * alike**2 / (1 - alike**2)
    return np.asarray(np.maximum(3.0, (days - 1) / (1 + 2 * repeated)))


@dataclass(frozen=True, slots=True)
class Likeness:
    """How the days of a table hang together: what its features say of that together, `shared`, None where days are too
    few, and each of them `alone`, as the logarithm of each model's likelihood."""

    shared: Floats | None = None
    alone: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, alone: Mapping[str, Floats]) -> Likeness:
        """From what each feature says."""
        return cls(shared_prior(list(alone.values())) if alone else None, alone)

    def apart(self, feature: str, line: Timeline) -> Apart:
        """What a feature's window and its other days differ by without any shift."""
        weights = _PRIOR if self.shared is None else self.shared
        if feature in self.alone:
            weights = _believed(self.alone[feature], weights)
        order = np.lexsort((line.inside, line.days))
        factors = _variance(_contrast(line)[order], line.days[order])
        freedoms = _days_alone(int((~line.inside).sum()))
        return Apart(float(weights @ factors), float(weights @ factors / factors[0]), float(weights @ freedoms))


@dataclass(frozen=True, slots=True)
class Apart:
    """The variance of the difference between a window's mean and that of the other days: `factor` in units of one
    day's, `longer` in units of what it were if days did not hang together; `freedom` is how surely one day's is known.
    """

    factor: float
    longer: float
    freedom: float


def shared_prior(likelihoods: Sequence[Floats]) -> Floats:
    """What to expect of how days hang together, shape [G], from several features of the same days.

    One feature's days tell little of it; features of one table resemble each other in that. A few steps of expectation
    and maximisation (Robbins 1956, empirical Bayes), with the flat prior as one more feature.
    """
    prior = _PRIOR
    for _ in range(_STEPS):
        prior = (_PRIOR + sum(_believed(one, prior) for one in likelihoods)) / (1 + len(likelihoods))
    return prior


def reference_likelihood(values: Floats, days: Floats, columns: Floats) -> Floats:
    """The logarithm of each model's likelihood, shape [G], given series of the reference's days alone, [n, K]."""
    line = Timeline(days, np.zeros(len(days), dtype=np.bool_), np.ones(len(days)))
    return np.asarray(explain_days(values, line, np.zeros(len(days))).likelihood @ columns)


def _believed(likelihood: Floats, prior: Floats) -> Floats:
    found = likelihood + np.log(prior)
    weights = np.exp(found - found.max())
    return np.asarray(weights / weights.sum())


def explain_days(values: Floats, line: Timeline, extra: Floats) -> Explained:
    """Fits a level and a step of the window to series `values`, shape [n, K], under each model.

    `extra` is the variance that a day has beyond a usual one, because of fewer rows, in units of one day's.
    The days go through a Kalman filter, all models side by side, which whitens the series, the level and the step.
    """
    order = np.lexsort((line.inside, line.days))
    weights = _contrast(line)
    fits = [np.ones(len(values)), line.inside][: 2 if line.inside.any() else 1]
    white, logs = _whiten(np.column_stack([values, *fits])[order], line.days[order], extra[order])
    level_step, series = white[:, :, -len(fits) :], white[:, :, : -len(fits)]
    normal = np.einsum("ngi,ngj->gij", level_step, level_step)
    against = np.einsum("ngi,ngk->gik", level_step, series)
    inverse = np.linalg.inv(normal)
    fitted = inverse @ against
    left = np.maximum((series**2).sum(axis=0) - (fitted * against).sum(axis=1), 1e-12 * len(values))
    freedom = max(len(values) - len(fits), 1)
    known = -0.5 * (logs + np.linalg.slogdet(normal)[1])
    own = np.where(line.inside, 0.0, weights)
    return Explained(
        likelihood=known[:, None] - 0.5 * freedom * np.log(left),
        step=fitted[:, -1, :],
        error=np.sqrt(left / freedom * inverse[:, -1, -1][:, None]),
        factor=_variance(weights[order], line.days[order]),
        own=_variance(own[order], line.days[order]),
        freedom=freedom,
    )


def _contrast(line: Timeline) -> Floats:
    """Weights of days in the difference of the window's mean and the other days'."""
    now = np.where(line.inside, line.sizes, 0.0)
    before = line.sizes - now
    return np.asarray(now / max(now.sum(), 1.0) - before / before.sum())


def _whiten(columns: Floats, days: Floats, extra: Floats) -> tuple[Floats, Floats]:
    """Columns [n, C] as independent values of variance one, [n, G, C], and the logarithm of the determinant, [G].

    What is done for each day is kept short, since it is done for each day of each test.
    """
    kept, gain, spread = _filter_of(days.tobytes(), extra.tobytes())
    white = np.repeat(columns[:, None, :], len(_MODELS), axis=1)
    state = np.zeros(white.shape[1:])
    for place in range(len(days)):
        state *= kept[place]
        white[place] -= state
        state += gain[place] * white[place]
    return white / np.sqrt(spread)[:, :, None], np.log(spread).sum(axis=0)


@functools.lru_cache(maxsize=8)
def _filter_of(of_days: bytes, of_extra: bytes) -> tuple[Floats, Floats, Floats]:
    """What each model keeps of a level from the day before, [n, G, 1], how far it goes with what the day shows,
    [n, G, 1], and the variance of that, [n, G]; kept, since columns without missing values have the same days."""
    days, extra = np.frombuffer(of_days), np.frombuffer(of_extra)
    alike, lasting = _MODELS.T
    kept = alike ** np.diff(days, prepend=days[0])[:, None]
    carried, added = kept**2, lasting * (1 - kept**2)
    alone = (1 - lasting) + extra[:, None]
    spread, gain = np.empty(kept.shape), np.empty(kept.shape)
    unsure = lasting
    for place in range(len(days)):
        unsure = carried[place] * unsure + added[place]
        np.add(unsure, alone[place], out=spread[place])
        np.divide(unsure, spread[place], out=gain[place])
        unsure = gain[place] * alone[place]
    return kept[:, :, None], gain[:, :, None], spread


def _variance(weights: Floats, days: Floats) -> Floats:
    """Variance of a weighted sum of days under each model, [G], in units of one day's."""
    return _variance_of(weights.tobytes(), days.tobytes())


@functools.lru_cache(maxsize=256)
def _variance_of(of_weights: bytes, of_days: bytes) -> Floats:
    """The same, kept: columns without missing values have the same days and rows."""
    weights, days = np.frombuffer(of_weights), np.frombuffer(of_days)
    alike, lasting = _MODELS.T
    carried, cross = np.zeros(len(_MODELS)), np.zeros(len(_MODELS))
    for weight, gap in zip(weights, np.diff(days, prepend=days[0]), strict=True):
        carried *= alike**gap
        cross += weight * carried
        carried += weight
    return np.asarray((weights**2).sum() + 2 * lasting * cross)
