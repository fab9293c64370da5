"""Words how predictions moved, how well they are calibrated, and whether they are too good to be true.

`gate` calls one function per kind of finding; nothing is decided here but by the rule that it passes on.
"""

from __future__ import annotations

from tidegate_serving.admission.verdict import Finding, Outcome
from tidegate_validation.quality.compared import measure
from tidegate_validation.quality.drift import Collapse, nearly_constant
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.finding import EVERYTHING, SERVING, finite, known
from tidegate_validation.quality.leak import Suspicion
from tidegate_validation.quality.metrics import Estimate
from tidegate_validation.quality.rule import QualityRule

TOO_GOOD = "too good"
LEAK = "leak"
_STEEPEST = 1.25
_FAR = 0.5


def collapsed(found: Collapse, outcome: Outcome, rule: QualityRule) -> Finding:
    """One answer for nearly everything, or answers that differ by next to nothing."""
    if found.share > rule.collapse or not nearly_constant(found):
        share = f"{100 * found.share:.1f} %"
        sentence = f"the candidate gives one and the same answer, {found.answer}, to {share} of the held-out examples"
        if outcome is Outcome.WARN:
            sentence += (
                f", as does {SERVING}" if found.spread is not None else f"; before it was {100 * found.before:.1f} %"
            )
    else:
        spread = f"{100 * (found.spread or 0.0):.2g} %"
        sentence = f"the candidate's answers hardly differ: their spread is {spread} of what it was"
    return Finding("collapse", "predictions", outcome, sentence, number=found.share, limit=rule.collapse)


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
    return Finding("churn", "predictions", outcome, sentence, known(moved.value), finite(low, high), shown)


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
    return Finding("calibration", "slope", outcome, sentence, slope.value, finite(low, high), 1.0)


def believable(evaluation: Evaluation, power: float, limit: float) -> Finding:
    """Not too good."""
    sentence = f"{measure(evaluation)} {power:.3f} is believable, {limit:.3f} would not be"
    return Finding(TOO_GOOD, EVERYTHING, Outcome.PASS, sentence, number=power, limit=limit)


def too_good(
    evaluation: Evaluation,
    power: float,
    reference: float | None,
    limit: float,
    suspicion: Suspicion,
    rule: QualityRule,
) -> Finding:
    """Too good to be true, with the input that gives the answer away where one does.

    A first version has no `reference` to be measured against: unless one input alone gives the answer away it is a
    WARN, since the task may just be easy.
    """
    first = reference is None
    against = "" if reference is None else f" where {SERVING} reaches {reference:.3f}"
    values = f"{measure(evaluation)} {power:.3f}{against}"
    suspect = suspicion.suspect
    if suspicion.honest:
        sentence = f"{values}, as honest trees do with the inputs of both versions ({suspicion.ceiling:.3f})"
        return Finding(TOO_GOOD, EVERYTHING, Outcome.PASS, sentence, number=power, limit=limit)
    if suspect is None:
        why = "and no one input explains it; was it trained on the held-out data?"
        sentence = f"too good to be true: {values}, {why}"
        outcome = Outcome.WARN if first else Outcome.FAIL
        return Finding(TOO_GOOD, EVERYTHING, outcome, sentence, number=power, limit=limit)
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
