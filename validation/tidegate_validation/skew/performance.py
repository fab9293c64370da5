"""How well a version does in a window: as it should by its own probabilities, and as labels that arrive later show.

Of probabilities of one class the expected accuracy is known without labels (confidence-based estimation, as NannyML's
CBPE), as far as they are calibrated: they are calibrated by isotonic regression on rows with labels, where those are
enough. Nothing without labels can see a change of what the inputs mean. Days are the unit of both intervals.
"""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.skew.labels import REQUEST, ROW, Lookup, joined
from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.window import count_logged, logged_answers

if TYPE_CHECKING:
    import pyarrow as pa

_ENOUGH_LABELS = 500
_RESAMPLED = 60
_LEVEL = 0.95
_LEAST_DAYS = 5


class Metric(enum.StrEnum):
    """What is told: the share of right answers, or how far numbers are off on average."""

    ACCURACY = "accuracy"
    ERROR = "mean absolute error"


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95 % interval, from `rows` rows of `days` days."""

    value: float
    low: float
    high: float
    rows: int
    days: int


@dataclass(frozen=True, slots=True)
class Performance:
    """`estimated` says what labels should show, None where answers are no probabilities; `realised` what they do, None
    without labels of the window. `calibrated_on` are the rows with labels on which probabilities were calibrated, 0
    where they were taken as they are. `unmatched` are labels of requests that the log does not have, `elsewhere` of
    those that it has for other versions, for later times or without an answer, `ambiguous` those for requests of
    several rows that do not say of which. `not_finite` are rows of the window whose answer or label is NaN or infinite:
    such answers and labels are left out."""

    metric: Metric
    output: str
    rows: int
    estimated: Interval | None = None
    realised: Interval | None = None
    calibrated_on: int = 0
    unmatched: int = 0
    elsewhere: int = 0
    ambiguous: int = 0
    not_finite: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with the sentence."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """Both in words."""
        told = []
        if self.estimated is not None:
            how = (
                f"calibrated on {self.calibrated_on} rows with labels"
                if self.calibrated_on
                else "if its probabilities are calibrated: there are too few labels to see that"
            )
            told.append(f"{self.metric.value} of `{self.output}` should be {_words(self.estimated)}, {how}")
        if self.realised is not None:
            share = self.realised.rows / self.rows
            told.append(
                f"{'it' if told else f'{self.metric.value} of `{self.output}`'} is {_words(self.realised)} by the "
                f"labels of {self.realised.rows} rows ({100 * share:.0f} %)"
            )
        lost = [f"{self.unmatched} labels are of requests that the log does not have"] if self.unmatched else []
        if self.elsewhere:
            lost.append(
                f"{self.elsewhere} labels are of requests of another version or a later time, or without an answer"
            )
        if self.not_finite:
            lost.append(f"of {self.not_finite} rows the answer or the label is NaN or infinite, and left out")
        if self.ambiguous:
            lost.append(f"{self.ambiguous} do not say which row of their request they are for")
        text = "; ".join([*told, *lost])
        return text[:1].upper() + text[1:] + "."


@dataclass(frozen=True, slots=True)
class Answers:
    """Answered rows: request ids, row numbers and days [n], the answers [n], and which are of the window [n]."""

    output: str
    requests: tuple[str, ...]
    rows: Integers
    days: Integers
    values: Any
    inside: Mask


def performance(answers: Answers, labels: pa.Table | None, logged: Lookup = lambda requests: 0) -> Performance | None:
    """What can be told of the rows inside the window; those outside serve to calibrate. None where nothing can be:
    there are neither probabilities nor labels, or no answer of the window is a finite number. `logged` tells which
    requests the log has beside these. InvalidInput for labels that no answer can equal."""
    found = joined(answers.requests, answers.rows.tolist(), labels, logged)
    known = np.array([one is not None for one in found.truth], dtype=np.bool_)
    finite = _finite(answers.values)
    both = finite & _finite(np.array([0 if one is None else one for one in found.truth], dtype=object))
    not_finite = int((answers.inside & ~both).sum())
    answers, known = replace(answers, inside=answers.inside & finite), known & both
    if not answers.inside.any():
        return None
    used = answers.values[finite]
    probability = used.dtype.kind == "f" and bool(((used >= 0) & (used <= 1)).all())
    if not probability and not known.any():
        return None
    metric = Metric.ERROR if used.dtype.kind == "f" and not probability else Metric.ACCURACY
    scores = np.full(len(known), np.nan)
    truth = [one for one, kept in zip(found.truth, known, strict=True) if kept]
    scores[known] = _scores(answers.values[known], truth, metric, probability)
    seen = answers.inside & known
    estimated, calibrated_on = _estimated(answers, scores, known) if probability else (None, 0)
    return Performance(
        metric=metric,
        output=answers.output,
        rows=int(answers.inside.sum()),
        estimated=estimated,
        realised=_mean(scores[seen], answers.days[seen], metric) if seen.any() else None,
        calibrated_on=calibrated_on,
        unmatched=found.unmatched,
        elsewhere=found.elsewhere,
        ambiguous=found.ambiguous,
        not_finite=not_finite,
    )


def _finite(values: Any) -> Mask:
    """Which are no NaN and no infinity; what is no number at all is neither."""
    if values.dtype.kind in "fiub":
        return np.asarray(np.isfinite(values))
    return np.array([not isinstance(one, float) or math.isfinite(one) for one in values.tolist()], dtype=np.bool_)


def performance_in_log(labels: pa.Table | None, log_root: Path, *, model: str, **bounds: Any) -> Performance | None:
    """The same for a window of the log; `bounds` as for `logged_answers`."""
    found = logged_answers(log_root, model=model, **bounds)
    if found is None:
        return None
    answers = Answers(
        output=found.schema.metadata[b"output"].decode(),
        requests=tuple(found[REQUEST].to_pylist()),
        rows=found[ROW].to_numpy().astype(np.int64),
        days=found["day"].to_numpy(),
        values=found["answer"].to_numpy(),
        inside=found["inside"].to_numpy(),
    )
    return performance(answers, labels, functools.partial(count_logged, log_root, model))


def _scores(values: Any, truth: list[Any], metric: Metric, probability: bool) -> Floats:
    """How good each answer is: 1 or 0, or how far it is off."""
    if not truth:
        return np.empty(0)
    kinds = {"texts" if isinstance(one, str) else "numbers" for one in truth}
    if kinds != {"texts" if isinstance(values[0], str) else "numbers"}:
        raise InvalidInput(
            f"labels such as {truth[0]!r} are {' and '.join(sorted(kinds))}, and answers are such as "
            f"{values[0].item() if hasattr(values[0], 'item') else values[0]!r}: give labels of the answers' type"
        )
    if metric is Metric.ERROR or probability:
        try:
            numbers = np.array(truth, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"labels are no numbers, as the answers are ({error}): give 0 and 1, or what was right"
            ) from error
        if metric is Metric.ERROR:
            return np.asarray(np.abs(values.astype(np.float64) - numbers))
        return np.asarray((values >= 0.5) == (numbers >= 0.5), dtype=np.float64)
    return np.array([one == other for one, other in zip(values.tolist(), truth, strict=True)], dtype=np.float64)


def _estimated(answers: Answers, scores: Floats, known: Mask) -> tuple[Interval, int]:
    """The mean chance of being right, and on how many rows chances were calibrated.

    The interval holds what labels of this window would show: rows are right by chance, days differ, and calibration
    itself is not sure, which is read from calibrating on days drawn anew.
    """
    p, days = answers.values[answers.inside].astype(np.float64), answers.days[answers.inside]
    used = known & ~answers.inside
    if used.sum() < _ENOUGH_LABELS:
        used = np.zeros_like(used)
    sure = np.maximum(p, 1 - p)
    chances, unsure = sure, 0.0
    if used.any():
        right, felt = scores[used], answers.values[used].astype(np.float64)
        blocks = answers.days[used]
        chances = _calibrated(np.maximum(felt, 1 - felt), right, sure)
        random = np.random.default_rng(5)
        own = np.unique(blocks)
        rows_of = {day: np.flatnonzero(blocks == day) for day in own}
        means = []
        for _ in range(_RESAMPLED):
            drawn = np.concatenate([rows_of[day] for day in random.choice(own, len(own))])
            means.append(_calibrated(np.maximum(felt[drawn], 1 - felt[drawn]), right[drawn], sure).mean())
        unsure = float(np.var(means, ddof=1))
    by_day = _mean(chances, days, Metric.ACCURACY)
    chance = float((chances * (1 - chances)).sum()) / len(chances) ** 2
    reach = _reach(by_day.days)
    half = float(np.hypot((by_day.high - by_day.value), reach * np.sqrt(unsure + chance)))
    value = by_day.value
    return Interval(value, max(0.0, value - half), min(1.0, value + half), by_day.rows, by_day.days), int(used.sum())


def _calibrated(felt: Floats, right: Floats, wanted: Floats) -> Floats:
    """By isotonic regression, constant beyond what was `felt`; scikit-learn's class for it says the same and takes
    twice as long, for looking at its arguments."""
    from sklearn.isotonic import isotonic_regression

    known, place = np.unique(felt, return_inverse=True)
    rows = np.bincount(place).astype(np.float64)
    shares = np.bincount(place, right) / rows
    fitted = isotonic_regression(shares, sample_weight=rows, y_min=0.0, y_max=1.0)
    return np.asarray(np.interp(wanted, known, fitted), dtype=np.float64)


def _mean(values: Floats, days: Integers, metric: Metric) -> Interval:
    """The mean over rows, its error from how days differ; from rows where there are too few days to see that."""
    found, place = np.unique(days, return_inverse=True)
    mean, count = float(values.mean()), len(values)
    rows = float(values.var(ddof=1)) / count if count > 1 else float("inf")
    variance = rows
    if len(found) >= _LEAST_DAYS:
        sums = np.bincount(place, values - mean)
        variance = max(rows, float((sums**2).sum()) / count**2 * len(found) / (len(found) - 1))
    if metric is Metric.ACCURACY:
        # After Agresti and Coull (1998): all right or all wrong does not mean that nothing else is possible.
        smoothed = (values.sum() + 2) / (count + 4)
        variance = max(variance, float(smoothed * (1 - smoothed)) / (count + 4))
    half = _reach(len(found)) * float(np.sqrt(variance))
    low, high = (
        (max(0.0, mean - half), min(1.0, mean + half)) if metric is Metric.ACCURACY else (mean - half, mean + half)
    )
    return Interval(mean, low, high, count, len(found))


def _reach(days: int) -> float:
    from scipy import special

    tail = (1 - _LEVEL) / 2
    return float(-special.stdtrit(days - 1, tail) if days >= _LEAST_DAYS else -special.ndtri(tail))


def _words(one: Interval) -> str:
    return f"{one.value:.3g} ({one.low:.3g} to {one.high:.3g})"
