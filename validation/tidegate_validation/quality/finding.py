"""Words the quality gate's numbers as findings: what is known of the data, and each metric on all examples.

`gate` and `comparison` call one function per kind of finding; nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.admission.verdict import Finding, Outcome
from tidegate_validation.quality.compared import Gain, measure
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.metrics import Estimate, Floats
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.sandbox.answer import Answer

METRIC = "metric"
EVERYTHING = "all examples"
SERVING = "the version that serves now"
_NEAREST = 0.25
"""A number this near to its limit, as a share of the margin, is reckoned with as if it were that far from it."""
_MORE = 1.2


@dataclass(frozen=True, slots=True)
class Basis:
    """What an interval rests on: so many `units` (examples or queries), in these groups."""

    rows: int
    groups: str
    units: str


def too_few(rows: int, least: int, labels: Floats, task: str) -> Finding:
    """The data cannot say anything."""
    if rows < least:
        sentence = f"{rows} held-out examples with a label are too few to judge by, {least} are needed: hold out more"
    elif task == Task.BINARY:
        sentence = f"only {int(labels.sum())} of {rows} held-out labels are 1: too one-sided to judge by"
        if 2 * labels.sum() > rows:
            sentence = f"only {rows - int(labels.sum())} of {rows} held-out labels are 0: too one-sided to judge by"
    elif task == Task.RANKING:
        sentence = f"the {rows} held-out rows hold too few queries with a relevant row to judge by: hold out more"
    else:
        sentence = f"nearly all of {rows} held-out labels are of one class: too one-sided to judge by"
    return Finding(
        "held-out data", task, Outcome.INCONCLUSIVE, sentence, number=float(rows), limit=float(least), rows_needed=least
    )


def note(subject: str, sentence: str) -> Finding:
    """Something that the reader must know to read the rest."""
    return Finding("held-out data", subject, Outcome.PASS, sentence)


def unanswered(answer: Answer, done: int) -> Finding:
    """The candidate failed on held-out rows."""
    sentence = f"after {done} held-out examples the candidate no longer answered: {answer.words}"
    log = {"log": answer.log} if answer.log else None
    return Finding("predictions", "held-out data", Outcome.FAIL, sentence, example=log)


def not_finite(count: int, rows: int, example: Mapping[str, Any]) -> Finding:
    """The candidate answered NaN or infinity."""
    sentence = f"the candidate answers NaN or infinity for {count} of {rows} held-out examples"
    shown = {"input": dict(example)}
    return Finding("predictions", "held-out data", Outcome.FAIL, sentence, number=count / rows, example=shown)


def baseline_unusable(answer: Answer | None) -> Finding:
    """The baseline failed, so that there is nothing to compare with; that must not hold its successor back."""
    why = answer.words if answer is not None else "it answers NaN or infinity"
    sentence = f"{SERVING} cannot answer the held-out examples, so nothing is compared with it: {why}"
    return Finding("predictions", "baseline", Outcome.WARN, sentence)


def rubber_stamp(changes: int) -> Finding:
    """Nothing is compared: what remains are limits of the version alone."""
    stripped = f"; {changes} thresholds on changes are left out" if changes else ""
    sentence = "RUBBER-STAMP: a first version is compared with nothing, only limits on its own values hold" + stripped
    return Finding("first version", "RUBBER-STAMP", Outcome.PASS, sentence)


def first_version(
    evaluation: Evaluation, power: Estimate, least: float, outcome: Outcome, groups: str, alpha: float
) -> Finding:
    """A first version against chance."""
    low, high = power.interval(alpha)
    than = "chance" if least in (0.0, 0.5) else f"{least:.3g}"
    verb = {
        Outcome.PASS: "is better than",
        Outcome.FAIL: "is no better than",
    }.get(outcome, "cannot be told from")
    sentence = (
        f"a first version: {measure(evaluation)} {power.value:.3f} ({low:.3f} to {high:.3f}) {verb} {than} "
        f"on {len(evaluation.labels)} held-out examples in {groups}"
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
        known(power.value),
        finite(low, high),
        least,
        smallest_detectable=known(detectable),
        rule="quality.least_power",
        rows_needed=needed,
    )


def compared(gain: Gain, outcome: Outcome, p_value: float, basis: Basis, rule: QualityRule) -> Finding:
    """One deciding metric of the candidate against the baseline, with what to do where it is no PASS."""
    margin = rule.limit(relative=gain.relative)
    low, high = gain.gain.interval(rule.alpha)
    said = {
        Outcome.PASS: f"no worse than {SERVING}",
        Outcome.FAIL: f"worse than {SERVING}",
    }.get(outcome, f"not surely as good as {SERVING}")
    sure = f"gain {change(gain, gain.gain.value)}, between {change(gain, low)} and {change(gain, high)}"
    allowed = f"a loss of {amount(gain, margin)} is allowed"
    sentence = f"{said}: {values(gain)} ({sure}; {allowed}; {basis.rows} {basis.units} in {basis.groups})"
    detectable = gain.gain.detectable(rule.alpha)
    needed = None
    if outcome is Outcome.INCONCLUSIVE and math.isfinite(detectable) and margin > 0:
        needed = _needed(basis.rows, detectable, max(abs(gain.gain.value + margin), _NEAREST * margin))
        sentence += (
            f"; this data shows losses from {amount(gain, detectable)} on: hold out about {needed:,} {basis.units}"
        )
    return Finding(
        gain.metric,
        EVERYTHING,
        outcome,
        sentence,
        number=known(gain.gain.value),
        interval=finite(low, high),
        limit=-margin,
        p_value=p_value,
        smallest_detectable=known(detectable),
        rule="quality.loss_margin" if gain.relative else "quality.margin",
        rows_needed=needed,
    )


def metric_value(name: str, value: Estimate, gain: Gain | None, warned: float | None, rule: QualityRule) -> Finding:
    """A metric's value, kept for history; a WARN with the adjusted p-value where it got surely worse."""
    low, high = value.interval(rule.alpha)
    sentence = f"{name} {value.value:.4g} ({low:.4g} to {high:.4g})"
    if gain is not None:
        ends = " and ".join(change(gain, end) for end in gain.gain.interval(rule.alpha))
        sentence += f"; {SERVING} reaches {gain.baseline:.4g}, a gain between {ends}"
    if warned is not None and gain is not None:
        limit = rule.slice_limit(relative=gain.relative)
        sentence = f"{sentence}, a loss of more than {amount(gain, limit)}: it decides nothing, but look at it"
    return Finding(
        METRIC,
        name,
        Outcome.WARN if warned is not None else Outcome.PASS,
        sentence,
        number=known(value.value),
        interval=finite(low, high),
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


def values(gain: Gain) -> str:
    """Both models' values."""
    return f"{gain.metric} {gain.candidate:.3f} against {gain.baseline:.3f}"


def change(gain: Gain, value: float) -> str:
    """A signed change in the metric's unit."""
    return f"{100 * value:+.1f} %" if gain.relative else f"{value:+.3f}"


def amount(gain: Gain, value: float) -> str:
    """A size of change in the metric's unit."""
    return f"{100 * value:.3g} %" if gain.relative else f"{value:.3g}"


def known(value: float) -> float | None:
    """The number, or None for what no number is."""
    return value if math.isfinite(value) else None


def finite(low: float, high: float) -> tuple[float, float] | None:
    """The interval, or None where one group alone leaves it without bounds."""
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _needed(rows: int, detectable: float, distance: float) -> int:
    """Rows with which a difference of `distance` would show, where so many show `detectable`: more than there are."""
    return _rounded(math.ceil(rows * max((detectable / distance) ** 2, _MORE)))


def _rounded(count: int) -> int:
    """Up to two digits, the others 0."""
    size = int(10 ** max(len(str(count)) - 2, 0))
    return math.ceil(count / size) * size
