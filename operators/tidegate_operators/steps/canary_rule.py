"""When a canary passes: a rule, the numbers that it judges, and the pure function between them.

`canary` collects the numbers from the inference log; operators and the command line set the rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.verdict import Outcome


@dataclass(frozen=True, slots=True)
class CanaryRule:
    """How much traffic a canary must answer, and what fails it.

    `fraction` of requests is teed, 0 to 1; `pairs` teed answers must be compared within `within_seconds`. At most
    `max_error_share` of teed examples may end in an error, none in a NaN or an infinity. The median latency of the
    teed answers may be at most `latency_factor` times that of the primary ones plus `latency_grace_us` microseconds.
    Two good models differ, so the difference of answers is reported and not judged, unless `max_difference` bounds it.
    """

    fraction: float = 1.0
    pairs: int = 200
    within_seconds: float = 60.0
    max_error_share: float = 0.0
    latency_factor: float = 10.0
    latency_grace_us: float = 50_000.0
    max_difference: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise InvalidInput(f"a canary's fraction is {self.fraction}: use more than 0 and at most 1")
        if self.pairs < 1:
            raise InvalidInput(f"a canary's pairs is {self.pairs}: at least 1 answer must be compared")
        if self.within_seconds <= 0.0:
            raise InvalidInput(f"a canary's within_seconds is {self.within_seconds}: give it some time")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CanaryRule:
        """From names and values, which may be strings as templates make them; unknown names are refused."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise InvalidInput(f"a canary's rule has no {', '.join(unknown)}: use {', '.join(sorted(known))}")
        try:
            return cls(**{name: _number(name, value) for name, value in data.items()})
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"a canary's rule {dict(data)!r} holds something that is no number: {error}") from error


def _number(name: str, value: Any) -> Any:
    if value is None or value == "":
        return None
    return int(value) if name == "pairs" else float(value)


@dataclass(frozen=True, slots=True)
class CanaryNumbers:
    """What the log says by now, in examples: teed, ended in an error, compared with the primary answer to the same
    request, not finite among these; largest difference; median latencies in microseconds."""

    teed: int = 0
    errors: int = 0
    compared: int = 0
    not_finite: int = 0
    max_difference: float = 0.0
    primary_latency_us: float = 0.0
    tee_latency_us: float = 0.0


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What the canary said in one sentence, and the numbers behind it. PASS and WARN allow."""

    outcome: Outcome
    sentence: str
    numbers: CanaryNumbers

    @property
    def allowed(self) -> bool:
        """Whether the version may be promoted."""
        return self.outcome in (Outcome.PASS, Outcome.WARN)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag; a difference that is not finite is null."""
        numbers = {field.name: getattr(self.numbers, field.name) for field in fields(self.numbers)}
        if not math.isfinite(self.numbers.max_difference):
            numbers["max_difference"] = None
        return {
            "format": "tidegate.canary/1",
            "outcome": self.outcome.value,
            "sentence": self.sentence,
            **numbers,
        }


def judge(what: str, numbers: CanaryNumbers, rule: CanaryRule) -> CanaryResult:
    """The result for the version called `what`: FAIL for a fault, INCONCLUSIVE for too few pairs, else PASS."""
    fault = _fault(numbers, rule)
    if fault:
        return CanaryResult(Outcome.FAIL, f"The canary {what} {fault}.", numbers)
    if numbers.compared < rule.pairs:
        sentence = (
            f"The canary {what} had {numbers.compared} of {rule.pairs} needed answers compared "
            f"within {rule.within_seconds:g} s: send more traffic, wait longer or ask for fewer."
        )
        return CanaryResult(Outcome.INCONCLUSIVE, sentence, numbers)
    sentence = (
        f"The canary {what} answered {numbers.compared} teed examples without fault; "
        f"its answers differ by at most {numbers.max_difference:.3g}."
    )
    return CanaryResult(Outcome.PASS, sentence, numbers)


def is_decided(numbers: CanaryNumbers, rule: CanaryRule) -> bool:
    """Whether more traffic cannot change the answer for the better: enough pairs, or a fault that stays one."""
    tolerable = rule.max_error_share * max(rule.pairs, numbers.teed)
    return numbers.compared >= rule.pairs or numbers.not_finite > 0 or numbers.errors > tolerable


def _fault(numbers: CanaryNumbers, rule: CanaryRule) -> str:
    if numbers.teed and numbers.errors > rule.max_error_share * numbers.teed:
        return f"answered {numbers.errors} of {numbers.teed} teed examples with an error"
    if numbers.not_finite:
        return f"answered {numbers.not_finite} of {numbers.compared} compared examples with NaN or infinity"
    slowest = rule.latency_factor * numbers.primary_latency_us + rule.latency_grace_us
    if numbers.compared and numbers.tee_latency_us > slowest:
        return (
            f"took {numbers.tee_latency_us / 1000:.1f} ms in the median where the serving version "
            f"took {numbers.primary_latency_us / 1000:.1f} ms"
        )
    if rule.max_difference is not None and numbers.max_difference > rule.max_difference:
        return f"differs from the serving version by {numbers.max_difference:.3g}, more than {rule.max_difference:g}"
    return ""
