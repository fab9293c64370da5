"""Words the quality gate's numbers as findings, each one plain sentence.

`gate` calls one function per kind of finding; nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tidegate_serving.contract.verdict import Finding, Outcome
from tidegate_validation.quality.compared import Evaluation, Gain
from tidegate_validation.quality.leak import Suspicion
from tidegate_validation.quality.metrics import Estimate, Floats
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slices import Slice
from tidegate_validation.robustness.answer import Answer

TOO_GOOD = "too good"
LEAK = "leak"


def too_few(rows: int, least: int, labels: Floats, task: str) -> Finding:
    """The data cannot say anything."""
    if rows < least:
        sentence = f"{rows} held-out examples with a label are too few to judge by, {least} are needed"
    else:
        sentence = f"only {int(labels.sum())} of {rows} held-out labels are 1: too one-sided to judge by"
    return Finding("held-out data", task, Outcome.INCONCLUSIVE, sentence, number=float(rows), limit=float(least))


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
    sentence = f"the version that serves now cannot answer the held-out examples, so nothing is compared with it: {why}"
    return Finding("predictions", "baseline", Outcome.WARN, sentence)


def first_version(
    evaluation: Evaluation, power: Estimate, least: float, outcome: Outcome, groups: str, alpha: float
) -> Finding:
    """A first version against chance."""
    low, high = power.interval(alpha)
    than = "chance" if least in (0.0, 0.5) else f"{least:g}"
    verb = {
        Outcome.PASS: "is better than",
        Outcome.FAIL: "is no better than",
    }.get(outcome, "cannot be told from")
    sentence = (
        f"a first version: {evaluation.measure} {power.value:.3f} ({low:.3f} to {high:.3f}) {verb} {than} "
        f"on {len(evaluation.labels)} held-out examples in {groups}"
    )
    return Finding(evaluation.measure, "all examples", outcome, sentence, power.value, _finite(low, high), least)


def compared(gain: Gain, margin: float, outcome: Outcome, groups: str, alpha: float) -> Finding:
    """One metric of the candidate against the baseline."""
    low, high = gain.gain.interval(alpha)
    relative = gain.metric != "AUC"
    unit, scale = (" %", 100.0) if relative else ("", 1.0)
    digits = 1 if relative else 3
    change = (
        f"{scale * gain.gain.value:+.{digits}f}{unit}, between {scale * low:+.{digits}f} and {scale * high:+.{digits}f}"
    )
    said = {
        Outcome.PASS: "no worse than the version that serves now",
        Outcome.FAIL: "worse than the version that serves now",
    }.get(outcome, "not surely as good as the version that serves now")
    values = f"{gain.metric} {gain.candidate:.3f} against {gain.baseline:.3f}"
    sentence = f"{said}: {values} (gain {change}; a loss of {scale * margin:g}{unit} is allowed; {groups})"
    detectable = (high - low) / 2
    return Finding(
        gain.metric,
        "all examples",
        outcome,
        sentence,
        number=gain.gain.value,
        interval=_finite(low, high),
        limit=-margin,
        smallest_detectable=detectable if math.isfinite(detectable) else None,
    )


def no_probability(scores: Floats) -> Finding:
    """The candidate's scores left the range of probabilities, which the baseline's keep."""
    low, high = float(scores.min()), float(scores.max())
    sentence = f"the candidate answers {low:.3g} to {high:.3g}, the version that serves now stays within 0 and 1"
    return Finding("predictions", "range", Outcome.FAIL, sentence, interval=(low, high))


def worse_slice(one: Slice, rule: QualityRule) -> Finding:
    """A slice on which the candidate is worse."""
    low, high = one.gain.interval(rule.alpha)
    sentence = (
        f"where `{one.name}` ({one.rows} examples) its loss is {-100 * one.gain.value:.0f} % larger than that of the "
        f"version that serves now, and {100 * rule.slice_margin:g} % is allowed"
    )
    return Finding(
        "slice", one.name, Outcome.FAIL, sentence, one.gain.value, _finite(low, high), -rule.slice_margin, one.p_value
    )


def no_worse_slice(count: int, rule: QualityRule) -> Finding:
    """No slice is surely worse."""
    sentence = f"none of {count} slices is surely worse by more than {100 * rule.slice_margin:g} %"
    return Finding("slice", "all slices", Outcome.PASS, sentence, limit=-rule.slice_margin)


def collapsed(share: float, limit: float, outcome: Outcome) -> Finding:
    """One answer for nearly everything."""
    sentence = f"the candidate gives one and the same answer to {100 * share:.1f} % of the held-out examples"
    if outcome is Outcome.WARN:
        sentence += ", as does the version that serves now"
    return Finding("collapse", "predictions", outcome, sentence, number=share, limit=limit)


def believable(evaluation: Evaluation, power: float, limit: float) -> Finding:
    """Not too good."""
    sentence = f"{evaluation.measure} {power:.3f} is believable, {limit:.3f} would not be"
    return Finding(TOO_GOOD, "all examples", Outcome.PASS, sentence, number=power, limit=limit)


def too_good(
    evaluation: Evaluation,
    power: float,
    reference: float,
    limit: float,
    suspicion: Suspicion,
    rule: QualityRule,
    *,
    first: bool,
) -> Finding:
    """Too good to be true, with the input that gives the answer away where one does.

    A first version has nothing to be measured against: unless one input alone gives the answer away it is a WARN,
    since the task may just be easy.
    """
    name = evaluation.measure
    against = "" if first else f" where the version that serves now reaches {reference:.3f}"
    values = f"{name} {power:.3f}{against}"
    suspect = suspicion.suspect
    if suspicion.honest(power):
        sentence = f"{values}, as honest trees do with the inputs of both versions ({suspicion.ceiling:.3f})"
        return Finding(TOO_GOOD, "all examples", Outcome.PASS, sentence, number=power, limit=limit)
    if suspect is None:
        why = "and no one input explains it; was it trained on the held-out data?"
        sentence = f"too good to be true: {values}, {why}"
        outcome = Outcome.WARN if first else Outcome.FAIL
        return Finding(TOO_GOOD, "all examples", outcome, sentence, number=power, limit=limit)
    kind = ", an input that version does not have," if suspect.new and not first else ""
    alone = f"{kind} reaches {suspect.alone:.3f} alone"
    sentence = f"{values}: `{suspect.name}`{alone}, and without it {suspect.without:.3f} is left"
    trusted = suspect.name in rule.trusted
    cure = "it seems to know the label (if it does not, list it under quality.trusted in the policy)"
    sentence += "; the policy trusts it" if trusted else f"; {cure}"
    weak = first and suspect.alone < rule.lone_limit
    cause = {"kind": LEAK, "feature": suspect.name, "alone": suspect.alone, "without": suspect.without}
    return Finding(
        check=TOO_GOOD,
        subject=suspect.name,
        outcome=Outcome.WARN if trusted or weak else Outcome.FAIL,
        sentence=sentence if trusted else f"too good to be true: {sentence}",
        number=power,
        limit=limit,
        cause=cause,
    )


def _finite(low: float, high: float) -> tuple[float, float] | None:
    """The interval, or None where one group alone leaves it without bounds."""
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
