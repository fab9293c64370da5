"""The loss of each version day by day, and from when on it was known to be worse than before the release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_validation.backtest.history import History, PastRelease, Period, day_text
from tidegate_validation.backtest.result import MetricLoss
from tidegate_validation.case import Version
from tidegate_validation.quality.data.held_out import Source, held_out_of
from tidegate_validation.quality.data.predictions import predict_table
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.gate import Model
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.session import Session
from tidegate_validation.statistics.arrays import Floats, Integers

_LEAST_DAYS = 5
_CONFIDENCE = 0.99
_NAMES = {
    Task.BINARY: "squared error of the probability",
    Task.MULTICLASS: "share of the right class that was missed",
    Task.REGRESSION: "absolute error",
}


@dataclass(slots=True)
class Measured:
    """Mean loss by day, of the version that served then; `name` says which loss."""

    losses: dict[int, float] = field(default_factory=dict)
    worse: list[MetricLoss] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    name: str = ""


@dataclass(frozen=True, slots=True)
class MetricRule:
    """Windows of `window` days against the `days` before the release; worse by more than `margin` of that counts, and
    is known `delay` days later."""

    window: int
    days: int
    margin: float
    delay: int


def measure(
    history: History,
    served: Sequence[Period],
    quality: QualityRule,
    limits: SandboxLimits,
    rule: MetricRule,
) -> Measured:
    """Asks each version for the labelled rows before its release and while it served."""
    found = Measured()
    if history.label is None:
        found.unjudged.append("no labels are known, so nothing is said of metrics")
        return found
    for one, until in served:
        try:
            days, losses, found.name = _losses(history, one, until, quality, limits, rule)
        except TidegateError as error:
            found.unjudged.append(f"{one.name}: its metrics are not known: {error.message}")
            continue
        known = np.isfinite(losses)
        if not known.all():
            found.unjudged.append(
                f"{one.name}: {int((~known).sum())} of {len(known)} labelled rows have no answer that is a number, and "
                "count for no loss"
            )
        days, losses = days[known], losses[known]
        daily = {int(day): float(losses[days == day].mean()) for day in np.unique(days)}
        found.losses |= {day: loss for day, loss in daily.items() if day >= one.day}
        found.worse += _worse(one, daily, until, rule)
        if sum(day < one.day for day in daily) < _LEAST_DAYS:
            found.unjudged.append(f"{one.name}: fewer than {_LEAST_DAYS} labelled days before it to compare with")
    return found


def _losses(
    history: History, one: PastRelease, until: int, quality: QualityRule, limits: SandboxLimits, rule: MetricRule
) -> tuple[Integers, Floats, str]:
    rows = history.labelled(one.day - rule.days, until)
    model = Model.of(Version.read(one.directory), quality.output, str(history.label))
    source = Source(rows, str(history.label), (), history.time, None)
    held = held_out_of(source, [model.prediction], quality)
    if held.evaluation.task not in _NAMES:
        return np.empty(0, np.int64), np.empty(0), ""
    table, evaluation = held.table, held.evaluation
    if history.prediction is not None:
        scores = np.asarray(table[history.prediction].to_numpy(), dtype=np.float64)
    else:
        with Session(model.directory, limits, model.signature_name) as session:
            made = predict_table(session, model.signature, table, model.reader(evaluation), quality.batch_rows)
        if made.failure is not None and not len(made.rows):
            raise InvalidInput(f"it answers nothing: {made.failure.words}")
        scores, table, evaluation = made.scores, table.take(made.rows), evaluation.take(made.rows)
    days = History.of(table, history.time).days
    return days, _loss(evaluation, scores), _NAMES[Task(evaluation.task)]


def _loss(evaluation: Evaluation, scores: Floats) -> Floats:
    if evaluation.task == Task.BINARY:
        return np.asarray((scores - evaluation.labels) ** 2)
    if evaluation.task == Task.REGRESSION:
        return np.asarray(np.abs(scores - evaluation.labels))
    return np.asarray(1 - scores[np.arange(len(scores)), evaluation.labels.astype(np.int64)])


def _worse(one: PastRelease, daily: dict[int, float], until: int, rule: MetricRule) -> list[MetricLoss]:
    from scipy import stats

    before = np.array([loss for day, loss in daily.items() if day < one.day])
    if len(before) < _LEAST_DAYS:
        return []
    found: list[MetricLoss] = []
    for day in range(one.day + rule.window - 1, until):
        now = np.array([daily[past] for past in range(day - rule.window + 1, day + 1) if past in daily])
        if len(now) < min(_LEAST_DAYS, rule.window):
            continue
        test = stats.ttest_ind(now, before, equal_var=False)
        low = float(test.confidence_interval(2 * _CONFIDENCE - 1).low)
        if not low > rule.margin * float(before.mean()):
            continue
        told = day + rule.delay
        if found and told - found[-1].until <= 2:
            found[-1] = MetricLoss(one.name, found[-1].told, told, found[-1].sentence)
        else:
            rise = now.mean() / before.mean() - 1
            words = f"{100 * rise:+.0f} % loss in the {rule.window} days to {day_text(day)}"
            found.append(MetricLoss(one.name, told, told, words))
    return found
