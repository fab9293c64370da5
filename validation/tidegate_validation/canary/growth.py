"""How a canary's share of traffic grows: from what is counted and the present step to the next share, on, or back.

A pure function of numbers, step and rule. Each share asks for more evidence that the version is good enough than the
one before, and the last growth for all of it, so that few clients ever meet a version that is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate_serving.admission import Outcome
from tidegate_validation.canary.e_values import Tally
from tidegate_validation.canary.judgement import CanaryResult, Check, common_tallies, make_check
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule
from tidegate_validation.counts import counted

_FAMILIES = 2
"""Of refusals: beside the serving version, and alone at the end; they share the error rate."""


@dataclass(frozen=True, slots=True)
class Step:
    """One share under way: its place in the rule's shares, how long it has lasted and what the canary answered in it.

    `alone` compares what the canary answers now that it gets everything with what the serving version answered before,
    and is None until then. `held`: whatever the evidence, the share must not grow now.
    """

    number: int
    seconds: float
    answered: int
    alone: CanaryNumbers | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """What follows: the result by now, and the number of the step to be at; the share is 0 once it is refused."""

    result: CanaryResult
    number: int


def move(what: str, numbers: CanaryNumbers, step: Step, rule: CanaryRule) -> Move:
    """The next move for the version called `what`. `numbers` compare answers given beside the serving version."""
    decided = decide_growth(numbers, step, rule)
    outcome, number, checks = decided.outcome, decided.number, decided.checks
    seen = replace(numbers, share=0.0 if outcome is Outcome.FAIL else rule.shares[number])
    if outcome is Outcome.FAIL:
        at = f"at {100 * rule.shares[step.number]:.2f} % of the traffic"
        words = f"stepped back {at}: {_fault(step.alone if decided.alone and step.alone else numbers, rule, checks)}"
    elif outcome is Outcome.PASS:
        words = (
            f"answered {counted(numbers.answered, 'request')} of clients, in the end {100 * seen.share:.2f} % of the "
            f"traffic, as well as the serving version, which is sure to {100 * (1.0 - rule.error_rate):.0f} %"
        )
    else:
        words = _missing(seen, replace(step, number=number), rule, checks)
    return Move(CanaryResult(outcome, f"The canary {what} {words}.", seen, checks), number)


@dataclass(frozen=True, slots=True)
class Growth:
    """The outcome, the number of the step to be at, and each check's evidence, which is that of the end if `alone`."""

    outcome: Outcome
    number: int
    checks: tuple[Check, ...]
    alone: bool = False


def decide_growth(numbers: CanaryNumbers, step: Step, rule: CanaryRule) -> Growth:
    """The move without its words."""
    checks = _checks(numbers, rule)
    if any(check.refuses for check in checks):
        return Growth(Outcome.FAIL, step.number, checks)
    at_the_end = () if step.alone is None else _checks(step.alone, rule)
    if any(check.refuses for check in at_the_end):
        return Growth(Outcome.FAIL, step.number, at_the_end, alone=True)
    stay = Growth(Outcome.INCONCLUSIVE, step.number, checks)
    if step.held or step.answered < rule.step_rows or step.seconds < rule.step_seconds:
        return stay
    last = step.number == len(rule.shares) - 1
    if last and rule.shares[-1] >= 1.0:
        return replace(stay, outcome=Outcome.PASS)
    needed = _needed(step.number, rule)
    whole = needed >= _needed(len(rule.shares), rule)
    if any(check.promote < needed for check in checks) or (whole and numbers.compared < rule.pairs):
        return stay
    return replace(stay, outcome=Outcome.PASS) if last else replace(stay, number=step.number + 1)


def _needed(number: int, rule: CanaryRule) -> float:
    """The e-value with which a step is left: in equal parts, as logarithms, up to what a promotion needs."""
    parts = len(rule.shares) - (rule.shares[-1] >= 1.0)
    return math.exp(-math.log(rule.error_rate) * min(number + 1, parts) / parts) * (1.0 - 1e-12)


def _checks(numbers: CanaryNumbers, rule: CanaryRule) -> tuple[Check, ...]:
    tallies = [*common_tallies(numbers, rule)]
    if rule.labels:
        same = numbers.labelled - numbers.wrong - numbers.primary_wrong
        tallies.append(("quality", Tally(numbers.wrong, same, numbers.primary_wrong), rule.max_quality_loss))
    count = _FAMILIES * len(tallies)
    return tuple(make_check(name, tally, margin, rule.error_rate, count) for name, tally, margin in tallies)


def _fault(seen: CanaryNumbers, rule: CanaryRule, checks: Sequence[Check]) -> str:
    check = next(check for check in checks if check.refuses)
    if check.check == "slowness":
        slow = f"{seen.slow:,} of {counted(seen.compared, 'answer')}"
        return (
            f"{slow} took more than {100 * rule.max_slowdown:.0f} % longer than those of the serving version, "
            f"{seen.shadow_latency_us / 1000:.1f} ms in the median against "
            f"{seen.primary_latency_us / 1000:.1f} ms"
        )
    if check.check == "quality":
        return (
            f"of {counted(seen.labelled, 'labelled pair')} it alone was wrong in {seen.wrong:,}, the serving version "
            f"alone in {seen.primary_wrong:,}"
        )
    return (
        f"of {counted(seen.compared, 'pair')} it alone failed in {seen.errors + seen.not_finite:,} (errors, NaN, "
        f"infinity), the serving version alone in {seen.primary_faults:,}"
    )


def _missing(numbers: CanaryNumbers, step: Step, rule: CanaryRule, checks: Sequence[Check]) -> str:
    at = f"is at {100 * numbers.share:.2f} % of the traffic with {counted(numbers.answered, 'answer')}"
    if not numbers.compared:
        return f"{at} and none to compare within {rule.seconds:g} s: send traffic to the model, or give it more time"
    needed = _needed(step.number, rule)
    weakest = min(checks, key=lambda check: check.promote)
    if weakest.promote >= needed:
        return f"{at}: a step needs {counted(rule.step_rows, 'answer')} and {rule.step_seconds:g} s"
    return (
        f"{at} and not decided on {weakest.check}: {100 * weakest.tally.excess:.2f} % in "
        f"{counted(weakest.tally.pairs, 'pair')}, {100 * weakest.margin:.2f} % is too much, "
        f"evidence {weakest.promote:.3g} of {needed:.3g} that the next step needs: send more traffic or wait longer"
    )
