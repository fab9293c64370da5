"""Findings about metrics on all examples and about changed predictions, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.counts import counted
from tidegate_validation.quality.allowance import margin_key
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.metrics.gains import EVERYTHING, SERVING, Gain, measure
from tidegate_validation.quality.metrics.prediction_change import Collapse, nearly_constant
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.jackknife import Estimate
from tidegate_validation.statistics.numbers import finite_or_none, round_up

METRIC = "metric"
_NEAREST = 0.25
"""A number this near to its limit, as a share of the margin, is reckoned with as if it were that far from it."""
_MORE = 1.2
_STEEPEST = 1.25
_FAR = 0.5
_SMALL = 0.0005
"""Below that three decimals show nothing."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What an interval rests on: so many `units` (examples or queries), in these groups."""

    rows: int
    groups: str
    units: str


def rubber_stamp(changes: int) -> Finding:
    """Nothing is compared: what remains are limits of the version alone."""
    stripped = f"; {changes} thresholds on changes are left out" if changes else ""
    sentence = "RUBBER-STAMP: a first version is compared with nothing, only limits on its own values hold" + stripped
    return Finding("first version", "RUBBER-STAMP", Outcome.PASS, sentence)


def first_version(
    evaluation: Evaluation, power: Estimate, least: float, outcome: Outcome, groups: str, alpha: float
) -> Finding:
    """A first version against chance."""
    than = "chance" if least in (0.0, 0.5) else f"{least:.3g}"
    verb = {
        Outcome.PASS: "is better than",
        Outcome.FAIL: "is no better than",
    }.get(outcome, "cannot be told from")
    sentence = (
        f"a first version: {measure(evaluation)} {power.value:.3f}{_bounds(power, alpha, '.3f')} {verb} {than} "
        f"on {len(evaluation.labels):,} held-out examples in {groups}"
    )
    detectable = power.detectable(alpha)
    needed = None
    if outcome is Outcome.INCONCLUSIVE and math.isfinite(detectable):
        needed = _needed(len(evaluation.labels), detectable, max(abs(power.value - least), _NEAREST * abs(1.0 - least)))
        sentence += f": hold out about {needed:,} examples"
    return Finding(
        measure(evaluation),
        EVERYTHING,
        outcome,
        sentence,
        finite_or_none(power.value),
        power.finite_interval(alpha),
        least,
        smallest_detectable=finite_or_none(detectable),
        rule="quality.least_power",
        rows_needed=needed,
    )


def deciding_metric(
    gain: Gain, interval: tuple[float, float], outcome: Outcome, p_value: float, basis: Basis, rule: QualityRule
) -> Finding:
    """A metric that decides: the candidate's against the baseline's, with what to do where it is no PASS.

    `interval` has the two bounds that decide: a lower end above minus the margin passes, an upper one below it fails.
    """
    margin = gain.margin
    low, high = interval
    said = {
        Outcome.PASS: f"no worse than {SERVING}",
        Outcome.FAIL: f"worse than {SERVING}",
    }.get(outcome, f"not surely as good as {SERVING}")
    sure = f"gain {gain.change(gain.gain.value)}, {gain.between(low, high)}"
    allowed = f"a loss of {gain.amount(margin)} is allowed"
    values = f"{gain.metric} {_number(gain.candidate)} against {_number(gain.baseline)}"
    sentence = f"{said}: {values} ({sure}; {allowed}; {basis.rows:,} {basis.units} in {basis.groups})"
    detectable = gain.gain.detectable(rule.alpha)
    needed = None
    if outcome is Outcome.INCONCLUSIVE and math.isfinite(detectable) and margin > 0:
        needed = _needed(basis.rows, detectable, max(abs(gain.gain.value + margin), _NEAREST * margin))
        sentence += (
            f"; this data shows losses from {gain.amount(detectable)} on: hold out about {needed:,} {basis.units}"
        )
    return Finding(
        gain.metric,
        EVERYTHING,
        outcome,
        sentence,
        number=finite_or_none(gain.gain.value),
        interval=interval if math.isfinite(low) and math.isfinite(high) else None,
        limit=-margin,
        p_value=p_value,
        smallest_detectable=finite_or_none(detectable),
        rule=f"quality.{margin_key(gain, 'loss_margin', 'margin', 'loss_floor', rule)}",
        rows_needed=needed,
    )


def metric_value(name: str, value: Estimate, gain: Gain | None, warned: float | None, rule: QualityRule) -> Finding:
    """A metric's value, kept for history; a WARN with the adjusted p-value where it got surely worse."""
    sentence = f"{name} {value.value:.4g}{_bounds(value, rule.alpha, '.4g')}"
    if gain is not None:
        ends = gain.between(*gain.gain.interval(rule.alpha))
        sentence += f"; {SERVING} reaches {gain.baseline:.4g}, a gain {ends}"
    if warned is not None and gain is not None:
        sentence = f"{sentence}, a loss of more than {gain.amount(gain.margin)}: it decides nothing, but look at it"
    return Finding(
        METRIC,
        name,
        Outcome.WARN if warned is not None else Outcome.PASS,
        sentence,
        number=finite_or_none(value.value),
        interval=value.finite_interval(rule.alpha),
        p_value=warned,
    )


def missing_metric(name: str, task: str) -> Finding:
    """A metric that the policy asks for and the predictions do not allow."""
    sentence = f"{name} decides by the policy, but the predictions of this {task} task do not allow it: change metrics"
    return Finding(name, EVERYTHING, Outcome.FAIL, sentence)


def no_probability(scores: Floats) -> Finding:
    """The candidate's scores left the range of probabilities, which the baseline's keep."""
    low, high = float(scores.min()), float(scores.max())
    if scores.ndim == 2 and low >= 0 and high <= 1:
        off = float(np.abs(scores.sum(axis=1) - 1).max())
        sentence = f"the candidate's probabilities miss a sum of 1 by up to {off:.3g}, those of {SERVING} do not"
        return Finding("predictions", "range", Outcome.FAIL, sentence, number=off)
    sentence = f"the candidate answers {low:.3g} to {high:.3g}, {SERVING} stays within 0 and 1"
    return Finding("predictions", "range", Outcome.FAIL, sentence, interval=(low, high))


def only_decisions() -> Finding:
    """The candidate decides for a class, where the baseline says how sure it is."""
    sentence = (
        f"the candidate answers 0 and 1 alone, {SERVING} probabilities: call predict_proba in place of predict, or, "
        "where it has none, calibrate it; a tree grown to its last example has no others, so limit its depth; where "
        "classes are meant, answer their names"
    )
    return Finding("predictions", "decisions", Outcome.WARN, sentence, cause={"kind": "decisions"})


def collapsed(found: Collapse, outcome: Outcome, rule: QualityRule) -> Finding:
    """One answer for nearly everything, or answers that differ by next to nothing."""
    if found.share > rule.collapse or not nearly_constant(found):
        share = f"{100 * found.share:.1f} %"
        sentence = f"the candidate gives one and the same answer, {found.answer}, to {share} of the held-out examples"
        if outcome is Outcome.WARN:
            sentence += f", as does {SERVING}" if found.spread is not None else f"; {100 * found.before:.1f} % is usual"
    else:
        spread = f"{100 * (found.spread or 0.0):.3g} %"
        sentence = f"the candidate's answers hardly differ: their spread is {spread} of what it was"
    return Finding("collapse", "predictions", outcome, sentence, number=found.share, limit=rule.collapse)


def constant_slice(name: str, rows: int, answer: float) -> Finding:
    """One answer for all examples of a slice that the baseline tells apart."""
    sentence = (
        f"where `{name}` ({counted(rows, 'example')}) the candidate gives one and the same answer, {answer:.6g}; those "
        f"of {SERVING} differ there"
    )
    return Finding("collapse", name, Outcome.WARN, sentence, number=float(rows))


def churned(task: str, moved: Estimate, rule: QualityRule) -> Finding:
    """How many decisions are others than before; FAIL where the policy limits that."""
    low, high = moved.interval(rule.alpha)
    if task == Task.RANKING:
        what = f"{100 * moved.value:.1f} % of the queries get another first row"
    elif task == Task.REGRESSION:
        what = f"answers moved by {moved.value:.3g} standard deviations in the mean"
    else:
        what = f"{100 * moved.value:.1f} % of the decisions differ"
    outcome = Outcome.FAIL if low > rule.churn_limit else Outcome.PASS
    limit = f"; the policy allows {rule.churn_limit:g}" if outcome is Outcome.FAIL else ""
    sentence = f"{what} from those of {SERVING} ({low:.3g} to {high:.3g}){limit}"
    shown = rule.churn_limit if rule.churn_limit < float("inf") else None
    return Finding(
        "churn", "predictions", outcome, sentence, finite_or_none(moved.value), moved.finite_interval(rule.alpha), shown
    )


def shifted(distance: float) -> Finding:
    """How far the distribution of answers moved."""
    sentence = f"the distribution of answers moved by {distance:.2f} (0.1 is a tenth of a standard deviation)"
    if distance > _FAR:
        sentence += ": whoever uses the scores with a threshold of their own should know"
    return Finding("shift", "predictions", Outcome.PASS, sentence, number=distance)


def calibrated(line: tuple[Estimate, Estimate], before: tuple[Estimate, Estimate] | None, rule: QualityRule) -> Finding:
    """Slope and intercept of the truth on the log-odds; a WARN where the slope got surely far from 1."""
    slope, intercept = line
    low, high = slope.interval(rule.alpha)
    off = low > _STEEPEST or high < 1 / _STEEPEST
    as_before = before is not None and abs(before[0].value - 1) >= abs(slope.value - 1)
    said = "too timid" if slope.value > 1 else "too bold"
    sentence = f"calibration slope {slope.value:.2f} ({low:.2f} to {high:.2f}), intercept {intercept.value:+.2f}"
    if before is not None:
        sentence += f"; {SERVING}: {before[0].value:.2f} and {before[1].value:+.2f}"
    if off:
        sentence += f": its probabilities are {said}; calibrate it on data of its own"
    outcome = Outcome.WARN if off and not as_before else Outcome.PASS
    return Finding("calibration", "slope", outcome, sentence, slope.value, slope.finite_interval(rule.alpha), 1.0)


def off_on_the_whole(mine: Estimate, before: Estimate, share: float, rule: QualityRule) -> Finding:
    """Probabilities that miss the share of the positive class, which those of the baseline meet."""
    sentence = (
        f"its probabilities are {share + mine.value:.3f} in the mean, where {share:.3f} of the labels are positive and "
        f"{SERVING} says {share + before.value:.3f}: whoever uses them with a threshold decides otherwise; see how "
        "inputs are scaled and classes weighted, or calibrate it on data of its own"
    )
    interval = mine.finite_interval(rule.alpha)
    return Finding("calibration", "mean", Outcome.WARN, sentence, mine.value, interval, cause={"kind": "mean"})


def _bounds(value: Estimate, alpha: float, digits: str) -> str:
    """Its interval in brackets; infinite bounds are none."""
    interval = value.finite_interval(alpha)
    if interval is None:
        return " (this data gives no bounds)"
    return f" ({interval[0]:{digits}} to {interval[1]:{digits}})"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= _SMALL else f"{value:.2g}"


def _needed(rows: int, detectable: float, distance: float) -> int:
    """Rows with which a difference of `distance` would show, where so many show `detectable`: more than there are."""
    return round_up(rows * max((detectable / distance) ** 2, _MORE))
