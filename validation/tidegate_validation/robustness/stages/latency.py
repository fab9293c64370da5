"""How long calls take: against a budget in the policy, and against the version that serves now.

Quantiles have distribution-free intervals (order statistics), the ratio to the baseline one over interleaved pairs of
calls (bootstrap); time in which other work held the processor is not counted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_serving.admission import Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.sandbox.answer import AnswerKind
from tidegate_validation.sandbox.examples import Examples

_CALLS, _CALLS_FOR_MIDDLE, _CALLS_FOR_TAIL, _MOST_CALLS = 20, 60, 300, 2000
"""Of 300 calls, one at least shows a tail of 2 % with a chance of 99.8 %."""
_SECONDS = 6.0
_PAIRS = 60
_MIDDLE, _TAIL = 0.5, 0.99
_WARM = 5
_LEAST_SLOWER = 0.001
_CONFIDENCE = 0.99
_RESAMPLES = 1000
_LEAST_SECONDS = 1e-9

Seconds = npt.NDArray[np.float64]


def quantile_interval(values: Seconds, share: float) -> tuple[float, float]:
    """Bounds between which the quantile lies with 99 % confidence; infinite above where the values are too few."""
    from scipy import stats

    found: Any = stats.quantile_test(values, p=share).confidence_interval(_CONFIDENCE)
    return float(np.nan_to_num(found.low)), float(np.nan_to_num(found.high, nan=np.inf))


def ratio_interval(one: Seconds, other: Seconds) -> tuple[float, float, float]:
    """The ratio of medians of paired values, and bounds for it with 99 % confidence, by bootstrap over pairs."""
    from scipy import stats

    found = stats.bootstrap(
        (one, other),
        _ratio_of_medians,
        paired=True,
        n_resamples=_RESAMPLES,
        confidence_level=_CONFIDENCE,
        method="percentile",
        rng=0,
    ).confidence_interval
    return float(_ratio_of_medians(one, other)), float(found.low), float(found.high)


def _ratio_of_medians(one: Seconds, other: Seconds, axis: int = -1) -> Seconds:
    ratio: Seconds = np.median(one, axis=axis) / np.maximum(np.median(other, axis=axis), _LEAST_SECONDS)
    return ratio


@dataclass(frozen=True, slots=True)
class Budget:
    """One promise: so many milliseconds for this share of the calls with this many rows; 0 for no promise."""

    rows: int
    share: float
    milliseconds: float

    @property
    def subject(self) -> str:
        """Its name in findings."""
        return f"p{100 * self.share:.0f} of {self.rows} row{'s' if self.rows > 1 else ''}"


def latency(examination: Examination) -> None:
    """One row, then the largest batch."""
    limits = examination.limits
    budgets = [
        Budget(1, _MIDDLE, limits.p50_ms),
        Budget(1, _TAIL, limits.p99_ms),
        Budget(limits.max_batch, _MIDDLE, limits.batch_p50_ms),
        Budget(limits.max_batch, _TAIL, limits.batch_p99_ms),
    ]
    for rows in dict.fromkeys(budget.rows for budget in budgets):
        wanted = [budget for budget in budgets if budget.rows == rows]
        if rows == 1 or any(budget.milliseconds for budget in wanted):
            _measure(examination, rows, wanted)
    _against_baseline(examination)


def _measure(examination: Examination, rows: int, budgets: list[Budget]) -> None:
    examples = examination.answered_rows(rows)
    examples = examples.take(np.arange(rows) % len(examples))
    seconds: list[float] = []
    end = time.monotonic() + _SECONDS
    shares = [budget.share for budget in budgets if budget.milliseconds]
    least = _CALLS if not shares else _CALLS_FOR_MIDDLE if max(shares) == _MIDDLE else _CALLS_FOR_TAIL
    while len(seconds) < least or (_open(budgets, seconds) and len(seconds) < _MOST_CALLS and time.monotonic() < end):
        answer = examination.ask(examples)
        if answer.kind is not AnswerKind.OUTPUTS:
            return
        seconds.append(answer.seconds)
    for budget in budgets:
        _judge(examination, budget, np.asarray(seconds))


def _open(budgets: list[Budget], seconds: list[float]) -> bool:
    """Whether more calls would decide a budget that these pass, but not beyond doubt."""
    for budget in budgets:
        if budget.milliseconds and max(seconds) > budget.milliseconds / 1e3:
            low, high = quantile_interval(np.asarray(seconds), budget.share)
            if low <= budget.milliseconds / 1e3 < high:
                return True
    return False


def _judge(examination: Examination, budget: Budget, seconds: Seconds) -> None:
    low, high = quantile_interval(seconds, budget.share)
    found = 1e3 * float(np.quantile(seconds, budget.share, method="higher"))
    words = f"{100 * budget.share:.0f} % of {len(seconds)} calls with {budget.rows} row{'s' if budget.rows > 1 else ''}"
    sentence = f"{words} took {found:.3g} ms or less"
    outcome, limit = Outcome.PASS, None
    if budget.milliseconds:
        limit = budget.milliseconds
        sentence += f", the budget is {limit:g} ms"
        if 1e3 * low > limit:
            outcome = Outcome.FAIL
        elif found > limit:
            outcome, sentence = Outcome.WARN, f"{sentence}, and more calls would be needed to tell"
    interval = (1e3 * low, 1e3 * high)
    cause = {"kind": "slow"} if outcome is Outcome.FAIL else None
    examination.report(
        "latency", budget.subject, outcome, sentence, number=found, interval=interval, limit=limit, cause=cause
    )


def _against_baseline(examination: Examination) -> None:
    """Interleaved calls, so that both meet the same machine."""
    examples = examination.answered_rows(64)
    if examination.ask_baseline(examples.arrays) is None:
        return
    pairs = _pairs(examination, examples)
    if len(pairs) < _PAIRS:
        return
    ratio, low, high = ratio_interval(pairs[:, 0], pairs[:, 1])
    limits = examination.limits
    slower = low > limits.slower and float(np.median(pairs[:, 0] - pairs[:, 1])) > _LEAST_SLOWER
    sentence = f"takes {ratio:.3g} times as long as the version that serves now ({low:.3g} to {high:.3g})"
    examination.report(
        "latency",
        "against the baseline",
        Outcome(limits.slower_counts) if slower else Outcome.PASS,
        sentence,
        number=ratio,
        interval=(low, high),
        limit=limits.slower,
        cause={"kind": "slow"} if slower else None,
    )


def _pairs(examination: Examination, examples: Examples) -> Seconds:
    found = []
    for number in range(_PAIRS + _WARM):
        mine, other = examination.ask(examples), examination.ask_baseline(examples.arrays)
        if mine.kind is not AnswerKind.OUTPUTS or other is None or other.kind is not AnswerKind.OUTPUTS:
            break
        if number >= _WARM:
            found.append((mine.seconds, other.seconds))
    return np.asarray(found).reshape(-1, 2)
