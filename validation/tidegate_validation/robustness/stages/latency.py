"""How long calls take, against the budgets in the policy.

Calls go through the rows of the data in turn, so that rows which take long count as often as they come. Quantiles have
distribution-free intervals (order statistics); time in which other work held the processor is not counted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_serving.admission import Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.finding import milliseconds
from tidegate_validation.sandbox.answer import AnswerKind

_CALLS, _CALLS_FOR_MIDDLE, _CALLS_FOR_TAIL, _MOST_CALLS = 20, 60, 300, 2000
"""Of 300 calls, one at least shows a tail of 2 % with a chance of 99.8 %."""
_LEAST_CALLS = 8
"""So many of the slowest model: if half of its calls kept a budget, eight would all miss it once in 256 times."""
_CALLS_OF_OTHERS, _PATIENCE_SECONDS = 300, 60.0
"""So many calls at least the other stages make, and how long they may take of a version that is refused."""
_DIFFERENT_ROWS = 2048
_SECONDS, _MOST_SECONDS = 6.0, 30.0
_LOOK_EVERY = 1.5
_MIDDLE, _TAIL = 0.5, 0.99
_CONFIDENCE, _EARLY_CONFIDENCE = 0.99, 0.9999
"""The second for a look at the first calls, of which there are many: together they err no more often than the last."""

Seconds = npt.NDArray[np.float64]


def quantile_interval(values: Seconds, share: float, confidence: float = _CONFIDENCE) -> tuple[float, float]:
    """Bounds between which the quantile lies; 0 and infinity where the values are too few to say."""
    from scipy import stats

    found: Any = stats.quantile_test(values, p=share).confidence_interval(confidence)
    return float(np.nan_to_num(found.low)), float(np.nan_to_num(found.high, nan=np.inf))


@dataclass(frozen=True, slots=True)
class Budget:
    """One promise: so many milliseconds for this share of the calls with this many rows; 0 for no promise."""

    rows: int
    share: float
    milliseconds: float

    @property
    def subject(self) -> str:
        """Its name in findings."""
        return f"p{100 * self.share:.0f} of {self._rows}"

    def found(self, seconds: Seconds) -> float:
        """Within how many milliseconds this share of the calls was answered."""
        return 1e3 * float(np.quantile(seconds, self.share, method="higher"))

    def taken(self, seconds: Seconds) -> str:
        """The same in words."""
        words = f"{100 * self.share:.0f} % of {len(seconds)} calls with {self._rows}"
        return f"{words} took {milliseconds(self.found(seconds) / 1e3)} or less"

    def missed(self, seconds: Seconds, confidence: float = _CONFIDENCE) -> bool:
        """Whether calls miss it beyond doubt."""
        low, _ = quantile_interval(seconds, self.share, confidence)
        return 0 < self.milliseconds < 1e3 * low

    def open(self, seconds: Seconds) -> bool:
        """Whether calls miss it, though not beyond doubt."""
        return 0 < self.milliseconds < self.found(seconds) and not self.missed(seconds)

    def judged(self, seconds: Seconds) -> tuple[Outcome, str]:
        """What calls say of it."""
        sentence = self.taken(seconds)
        if not self.milliseconds:
            return Outcome.PASS, sentence
        sentence += f", the budget is {self.milliseconds:g} ms"
        if self.missed(seconds):
            return Outcome.FAIL, sentence
        if self.open(seconds):
            return Outcome.WARN, f"{sentence}, and more calls would be needed to tell"
        return Outcome.PASS, sentence

    @property
    def _rows(self) -> str:
        return f"{self.rows} row{'s' if self.rows > 1 else ''}"


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
        wanted = [budget for budget in budgets if budget.rows == rows and not _known(examination, budget)]
        if (rows == 1 and wanted) or any(budget.milliseconds for budget in wanted):
            _hold_to(examination, rows, wanted)


def slow_beyond_doubt(examination: Examination) -> list[Budget]:
    """The budgets that ordinary calls with one row have missed so surely by now that more of them change nothing."""
    seconds, limits = np.asarray(examination.single_seconds), examination.limits
    budgets = (Budget(1, _MIDDLE, limits.p50_ms), Budget(1, _TAIL, limits.p99_ms))
    open_ones = [one for one in budgets if len(seconds) and not _known(examination, one)]
    return [one for one in open_ones if one.missed(seconds, _EARLY_CONFIDENCE)]


def surely_slow(examination: Examination) -> bool:
    """Whether no more calls are needed to see that it is slow; the very first ones may be so of any version."""
    return len(examination.single_seconds) >= _LEAST_CALLS and bool(slow_beyond_doubt(examination))


def refused_as_slow(examination: Examination) -> bool:
    """Where the first calls miss a budget beyond doubt: measures, and tells whether the version misses it by so much
    that all other stages would take long. It is refused in any case, and nobody should wait to hear it."""
    missed = slow_beyond_doubt(examination)
    if not missed:
        return False
    before = len(examination.single_seconds)
    _hold_to(examination, 1, missed)
    rest = _CALLS_OF_OTHERS * float(np.median(examination.single_seconds[before:] or [0.0]))
    slow = any(one.check == "latency" and one.outcome is Outcome.FAIL for one in examination.findings)
    if slow and rest > _PATIENCE_SECONDS:
        sentence = f"it is too slow: what would take {rest:.0f} s and more is untried; make it faster, then try again"
        examination.report("time", "slow", Outcome.INCONCLUSIVE, sentence, number=rest, limit=_PATIENCE_SECONDS)
        return True
    return False


def report_if_slow(examination: Examination) -> None:
    """Where no time was left to measure: whether ordinary calls with one row miss a budget beyond doubt."""
    for budget in slow_beyond_doubt(examination):
        _report(examination, budget, np.asarray(examination.single_seconds))


def _known(examination: Examination, budget: Budget) -> bool:
    return any(one.check == "latency" and one.subject == budget.subject for one in examination.findings)


def _hold_to(examination: Examination, rows: int, budgets: list[Budget]) -> None:
    """Judges budgets; one that is missed is measured once more, since the machine may have been busy for a moment."""
    first = _measured(examination, rows, budgets)
    if first is None:
        return
    missed = [budget for budget in budgets if budget.missed(first)]
    again = _measured(examination, rows, missed) if missed else None
    for budget in budgets:
        if budget not in missed:
            _report(examination, budget, first)
        elif again is not None:
            _report_twice(examination, budget, first, again)


def _measured(examination: Examination, rows: int, budgets: list[Budget]) -> Seconds | None:
    """How long calls took, so many as the budgets need or time allows; None where one was not answered."""
    examples = examination.answered_rows(max(rows, _DIFFERENT_ROWS))
    seconds: list[float] = []
    begun = time.monotonic()
    look = float(_LEAST_CALLS)
    while _more_needed(budgets, seconds, time.monotonic() - begun):
        places = np.arange(len(seconds) * rows, (len(seconds) + 1) * rows) % len(examples)
        answer = examination.ask(examples.take(places))
        if answer.kind is not AnswerKind.OUTPUTS:
            return None
        seconds.append(answer.seconds)
        if len(seconds) >= look:
            look *= _LOOK_EVERY
            if any(budget.missed(np.asarray(seconds), _EARLY_CONFIDENCE) for budget in budgets):
                break
    return np.asarray(seconds)


def _more_needed(budgets: list[Budget], seconds: list[float], lasted: float) -> bool:
    """Whether there are too few calls, or more would decide a budget that these miss, but not beyond doubt."""
    shares = [budget.share for budget in budgets if budget.milliseconds]
    least = _CALLS if not shares else _CALLS_FOR_MIDDLE if max(shares) == _MIDDLE else _CALLS_FOR_TAIL
    calls = len(seconds)
    if calls < _LEAST_CALLS or (calls < least and lasted < _MOST_SECONDS):
        return True
    return calls < _MOST_CALLS and lasted < _SECONDS and any(budget.open(np.asarray(seconds)) for budget in budgets)


def _report(examination: Examination, budget: Budget, seconds: Seconds) -> None:
    outcome, sentence = budget.judged(seconds)
    _say(examination, budget, seconds, outcome, sentence)


def _report_twice(examination: Examination, budget: Budget, first: Seconds, again: Seconds) -> None:
    """A budget that was missed beyond doubt: FAIL unless the second measurement keeps it."""
    outcome, sentence = budget.judged(again)
    earlier = f"measured twice: {budget.taken(first)} at first"
    if outcome is Outcome.WARN and budget.missed(np.concatenate([first, again])):
        outcome = Outcome.FAIL
    elif outcome is Outcome.PASS:
        outcome, earlier = Outcome.WARN, f"missed at first ({budget.taken(first)}), kept when measured again"
    _say(examination, budget, again, outcome, f"{sentence}; {earlier}")


def _say(examination: Examination, budget: Budget, seconds: Seconds, outcome: Outcome, sentence: str) -> None:
    low, high = quantile_interval(seconds, budget.share)
    examination.report(
        "latency",
        budget.subject,
        outcome,
        sentence,
        number=budget.found(seconds),
        interval=(1e3 * low, 1e3 * high),
        limit=budget.milliseconds or None,
        cause={"kind": "slow"} if outcome is Outcome.FAIL else None,
    )
