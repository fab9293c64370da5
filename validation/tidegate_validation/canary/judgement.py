"""From a canary's numbers to promote, refuse, or what is still missing; a pure function of numbers and rule.

It may be asked as often as one likes: see `e_values`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate_serving.admission import Outcome
from tidegate_validation.canary.e_values import Tally, against_good, against_worse, pairs_until
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule
from tidegate_validation.counts import counted


@dataclass(frozen=True, slots=True)
class Check:
    """One check's evidence: e-values against "too bad" and against "good enough", each beside the value it needs."""

    check: str
    tally: Tally
    margin: float
    promote: float
    promote_needs: float
    refuse: float
    refuse_needs: float

    @property
    def promotes(self) -> bool:
        """Whether the canary is surely good enough here."""
        return self.promote >= self.promote_needs

    @property
    def refuses(self) -> bool:
        """Whether the canary is surely too bad here."""
        return self.refuse >= self.refuse_needs

    @property
    def more_pairs(self) -> int | None:
        """How many further pairs a promotion needs at this rate, None where it would never get there."""
        until = pairs_until(self.tally, self.margin, math.log(self.promote_needs))
        return None if until is None else until - self.tally.pairs

    def to_dict(self) -> dict[str, Any]:
        """As JSON; `excess` is the share by which the canary is worse, `margin` what is too much."""
        return {
            "check": self.check,
            "excess": self.tally.excess,
            "margin": self.margin,
            "promote": self.promote,
            "promote_needs": self.promote_needs,
            "refuse": self.refuse,
            "refuse_needs": self.refuse_needs,
            "more_pairs": self.more_pairs,
        }


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What the canary said in one sentence, the numbers behind it and each check's evidence. PASS and WARN allow."""

    outcome: Outcome
    sentence: str
    numbers: CanaryNumbers
    checks: tuple[Check, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the version may be promoted."""
        return self.outcome in (Outcome.PASS, Outcome.WARN)

    @property
    def decided(self) -> bool:
        """Whether more traffic need not be waited for."""
        return self.outcome is not Outcome.INCONCLUSIVE

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag."""
        return {
            "format": "tidegate.canary/1",
            "outcome": self.outcome.value,
            "sentence": self.sentence,
            **self.numbers.to_dict(),
            "checks": [check.to_dict() for check in self.checks],
        }


def judge(what: str, numbers: CanaryNumbers, rule: CanaryRule) -> CanaryResult:
    """The result for the version called `what`: FAIL and PASS are sure at the rule's error rate, else INCONCLUSIVE."""
    outcome, checks = decide(numbers, rule)
    words = {Outcome.FAIL: _fault, Outcome.PASS: _praise, Outcome.INCONCLUSIVE: _missing}[outcome]
    return CanaryResult(outcome, f"The canary {what} {words(numbers, rule, checks)}.", numbers, checks)


def decide(numbers: CanaryNumbers, rule: CanaryRule) -> tuple[Outcome, tuple[Check, ...]]:
    """The outcome alone, with each check's evidence."""
    checks = _checks(numbers, rule)
    if any(check.refuses for check in checks):
        return Outcome.FAIL, checks
    if numbers.compared >= rule.pairs and all(check.promotes for check in checks):
        return Outcome.PASS, checks
    return Outcome.INCONCLUSIVE, checks


def _checks(numbers: CanaryNumbers, rule: CanaryRule) -> tuple[Check, ...]:
    tallies = [*common_tallies(numbers, rule)]
    if rule.disagreement_margin is not None:
        tallies.append(("disagreement", _share(numbers.disagreements, numbers.compared), rule.disagreement_margin))
    return tuple(make_check(name, tally, margin, rule.error_rate, len(tallies)) for name, tally, margin in tallies)


def common_tallies(numbers: CanaryNumbers, rule: CanaryRule) -> tuple[tuple[str, Tally, float], ...]:
    """What each mode judges: faults and slowness, as counted, each with the margin."""
    faults = numbers.errors + numbers.not_finite
    alike = numbers.compared - faults - numbers.primary_faults
    return (
        ("faults", Tally(faults, alike, numbers.primary_faults), rule.max_error_share),
        ("slowness", _share(numbers.slow, numbers.compared), rule.max_slow_share),
    )


def _share(bad: int, pairs: int) -> Tally:
    return Tally(bad, pairs - bad, 0, signed=False)


def make_check(name: str, tally: Tally, margin: float, error_rate: float, checks: int) -> Check:
    """A promotion needs every check, so each may use the whole error rate; a refusal needs one, so they share it."""
    promote_needs, refuse_needs = 1.0 / error_rate, checks / error_rate
    return Check(
        check=name,
        tally=tally,
        margin=margin,
        promote=_bounded_exp(against_worse(tally, margin)),
        promote_needs=promote_needs,
        refuse=_bounded_exp(against_good(tally, margin)),
        refuse_needs=refuse_needs,
    )


def _bounded_exp(log: float) -> float:
    return math.exp(min(log, 500.0))


def _praise(numbers: CanaryNumbers, rule: CanaryRule, checks: Sequence[Check]) -> str:
    return (
        f"answered {counted(numbers.compared, 'shadowed request')} as well as the serving version, "
        f"which is sure to {100 * (1.0 - rule.error_rate):.0f} %; "
        f"its answers differ by at most {numbers.max_difference:.3g}"
    )


def _fault(numbers: CanaryNumbers, rule: CanaryRule, checks: Sequence[Check]) -> str:
    check = next(check.check for check in checks if check.refuses)
    compared = counted(numbers.compared, "compared request")
    if check == "slowness":
        return (
            f"took too long for {numbers.slow:,} of {compared}: "
            f"{numbers.shadow_latency_us / 1000:.1f} ms in the median where the serving version "
            f"took {numbers.primary_latency_us / 1000:.1f} ms"
        )
    if check == "disagreement":
        allowed = f"a share below {rule.disagreement_margin:g} is allowed"
        by = f" by more than {rule.max_difference:g}" if rule.max_difference is not None else ""
        return f"disagrees with the serving version{by} on {numbers.disagreements:,} of {compared}; {allowed}"
    kinds = ((numbers.errors, "with an error"), (numbers.not_finite, "with NaN or infinity"))
    words = " and ".join(f"{count:,} of {compared} {kind}" for count, kind in kinds if count)
    return f"answered {words}, which the serving version answered well"


def _missing(numbers: CanaryNumbers, rule: CanaryRule, checks: Sequence[Check]) -> str:
    open_checks = [check for check in checks if not check.promotes]
    if not numbers.compared:
        return (
            f"had no answer to compare within {rule.seconds:g} s "
            f"({counted(numbers.shadowed, 'request was', 'requests were')} shadowed): "
            "send traffic to the model, or give it more time"
        )
    if not open_checks:
        least = counted(rule.pairs, "answer")
        return f"had {numbers.compared:,} of at least {least} compared: send more traffic or wait longer"
    more, slowest = max(((_or_infinity(check.more_pairs), check) for check in open_checks), key=lambda pair: pair[0])
    have = (
        f"has {counted(numbers.compared, 'answer')} compared and is not decided on "
        f"{slowest.check}: "
        f"{100 * slowest.tally.excess:.2f} % worse than the serving version, {100 * slowest.margin:.2f} % is too much, "
        f"evidence {slowest.promote:.3g} of {slowest.promote_needs:g}"
    )
    if math.isinf(more):
        return f"{have}; at this rate no number of answers would promote it: look at its log, or wait for a refusal"
    needed = counted(round(more), "more is", "more are")
    return f"{have}; at this rate about {needed} needed: send more traffic or wait longer"


def _or_infinity(pairs: int | None) -> float:
    return math.inf if pairs is None else float(pairs)
