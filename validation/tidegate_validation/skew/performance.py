"""How well a version does in a window: as it should by its own probabilities, and as labels that arrive later show.

Of probabilities of one class the expected accuracy is known without labels (confidence-based estimation, as NannyML's
CBPE), as far as they are calibrated: they are calibrated by isotonic regression on rows with labels, where those are
enough. Nothing without labels can see a change of what the inputs mean. Days are the unit of both intervals.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.window import logged_answers

if TYPE_CHECKING:
    import pyarrow as pa

LABEL, AT, REQUEST, ROW = "label", "at", "request_id", "row"
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
    where they were taken as they are. `unmatched` are labels of requests that the log does not have, `ambiguous` those
    for requests of several rows that do not say of which."""

    metric: Metric
    output: str
    rows: int
    estimated: Interval | None = None
    realised: Interval | None = None
    calibrated_on: int = 0
    unmatched: int = 0
    ambiguous: int = 0

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
                f"labels of {self.realised.rows} rows ({share:.0%})"
            )
        lost = [f"{self.unmatched} labels are of requests that the log does not have"] if self.unmatched else []
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


def performance(answers: Answers, labels: pa.Table | None) -> Performance | None:
    """What can be told of the rows inside the window; those outside serve to calibrate. None where nothing can be:
    there are neither probabilities nor labels."""
    if not answers.inside.any():
        return None
    truth, unmatched, ambiguous = _joined(answers, labels)
    known = np.array([one is not None for one in truth], dtype=np.bool_)
    numeric = answers.values.dtype.kind in "fiu"
    probability = answers.values.dtype.kind == "f" and bool(((answers.values >= 0) & (answers.values <= 1)).all())
    if not probability and not known.any():
        return None
    metric = Metric.ERROR if numeric and answers.values.dtype.kind == "f" and not probability else Metric.ACCURACY
    scores = np.full(len(truth), np.nan)
    scores[known] = _scores(answers.values[known], [one for one in truth if one is not None], metric, probability)
    seen = answers.inside & known
    estimated, calibrated_on = (None, 0)
    if probability:
        estimated, calibrated_on = _estimated(answers, scores, known)
    return Performance(
        metric=metric,
        output=answers.output,
        rows=int(answers.inside.sum()),
        estimated=estimated,
        realised=_mean(scores[seen], answers.days[seen], metric) if seen.any() else None,
        calibrated_on=calibrated_on,
        unmatched=unmatched,
        ambiguous=ambiguous,
    )


def performance_in_log(labels: pa.Table | None, log_root: Path, **bounds: Any) -> Performance | None:
    """The same for a window of the log; `bounds` as for `logged_answers`."""
    found = logged_answers(log_root, **bounds)
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
    return performance(answers, labels)


def newest_labels(labels: pa.Table) -> dict[tuple[str, int | None], Any]:
    """The label of each request, or of each row of it: the one with the newest time counts, then the last to come.

    Columns `request_id` and `label`, and where there are such `row` and `at`. InvalidInput where one is missing.
    """
    for name in (REQUEST, LABEL):
        if name not in labels.column_names:
            raise InvalidInput(f"labels have no column {name!r}: they have {', '.join(labels.column_names)}")
    size = labels.num_rows
    rows, when = (labels[name].to_pylist() if name in labels.column_names else [None] * size for name in (ROW, AT))
    order = [place for place in range(size) if when[place] is None]
    timed: list[Any] = sorted((at, place) for place, at in enumerate(when) if at is not None)
    order += [place for _, place in timed]
    names, values = labels[REQUEST].to_pylist(), labels[LABEL].to_pylist()
    return {(names[place], rows[place]): values[place] for place in order if values[place] is not None}


def _joined(answers: Answers, labels: pa.Table | None) -> tuple[list[Any], int, int]:
    """The label of each row, None where there is none; how many labels belong nowhere, and how many to several rows."""
    if labels is None:
        return [None] * len(answers.requests), 0, 0
    known = newest_labels(labels)
    sizes: dict[str, int] = {}
    for request in answers.requests:
        sizes[request] = sizes.get(request, 0) + 1
    unmatched = sum(request not in sizes for request, _ in known)
    whole = {request: label for (request, row), label in known.items() if row is None and request in sizes}
    fitting = {
        request: label if isinstance(label, list) else [label]
        for request, label in whole.items()
        if len(label if isinstance(label, list) else [label]) == sizes[request]
    }
    found = []
    for request, row in zip(answers.requests, answers.rows.tolist(), strict=True):
        own = known.get((request, row))
        if own is None and request in fitting and row < len(fitting[request]):
            own = fitting[request][row]
        found.append(own)
    return found, unmatched, len(whole) - len(fitting)


def _scores(values: Any, truth: list[Any], metric: Metric, probability: bool) -> Floats:
    """How good each answer is: 1 or 0, or how far it is off."""
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
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(felt, right)
    return np.asarray(fitted.predict(wanted), dtype=np.float64)


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
