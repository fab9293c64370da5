"""How long calls take beside those of the version that serves now: half of them, and the slowest few.

Calls of both are interleaved over the same rows, so that both meet the same machine and the same inputs. Half of the
calls are compared by the ratio of medians (bootstrap over pairs), the slowest by counting those far above either
median, pair by pair (McNemar's test). What seems slower is measured once more before it counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_serving.admission import Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.finding import assignment, example, milliseconds
from tidegate_validation.robustness.narrow import Culprit, narrow
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples

_ROWS, _DIFFERENT_ROWS = 64, 2048
_PAIRS, _LEAST_PAIRS = 300, 12
"""Of 300 pairs, five at least show a tail of 4 % with a chance of 99 %."""
_WARM = 5
_MOST_SECONDS = 30.0
_LEAST_SLOWER = 0.001
_FAR = 4.0
"""A call belongs to the tail when it takes so many times the median of either version."""
_SUSPICION, _CERTAINTY = 0.05, 0.001
_CONFIDENCE, _RESAMPLES = 0.99, 1000
_LEAST_SECONDS = 1e-9
_NARROW_SECONDS = 60.0
_AGAIN = 3

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Seconds of the candidate's and the baseline's calls, pair by pair; `requests` says which rows each pair had."""

    mine: Seconds
    other: Seconds
    requests: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.mine)

    def and_then(self, later: Pairs) -> Pairs:
        """These and later ones."""
        return Pairs(*(np.concatenate([getattr(self, name), getattr(later, name)]) for name in self.__slots__))

    @property
    def slower(self) -> float:
        """By how many seconds the candidate's call takes longer in half of the pairs."""
        return float(np.median(self.mine - self.other))

    @property
    def far(self) -> float:
        """From how many seconds on a call belongs to the tail."""
        middle = max(float(np.median(self.mine)), float(np.median(self.other)))
        return max(_FAR * middle, middle + _LEAST_SLOWER)


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


def tail_chance(pairs: Pairs) -> float:
    """The chance of so many calls of the candidate's in the tail, were its tail no longer than the baseline's.

    What keeps the processor from a call for a moment hits a longer call more often, in proportion to its length.
    """
    from scipy import stats

    mine, other = pairs.mine > pairs.far, pairs.other > pairs.far
    only_mine, only_other = int((mine & ~other).sum()), int((other & ~mine).sum())
    if not only_mine:
        return 1.0
    lasting = float(np.median(pairs.mine)), float(np.median(pairs.other))
    by_chance = max(0.5, lasting[0] / max(sum(lasting), _LEAST_SECONDS))
    found: Any = stats.binomtest(only_mine, only_mine + only_other, by_chance, alternative="greater")
    return float(found.pvalue)


def beside_baseline(examination: Examination) -> None:
    """Both comparisons; none without a baseline that can be asked the same."""
    rows = examination.answered_rows(_DIFFERENT_ROWS)
    size = min(_ROWS, examination.limits.max_batch, len(rows))
    requests = [rows.take(np.arange(first, first + size)) for first in range(0, len(rows) - size + 1, size)]
    if examination.ask_baseline(requests[0].arrays) is None:
        return
    first = _pairs(examination, requests)
    if first is None:
        return
    slower, tail = _slower(examination, first), tail_chance(first) < _SUSPICION
    again = _pairs(examination, requests) if slower or tail else None
    _report_middle(examination, first, again if slower else None)
    _report_tail(examination, requests, first, again if tail else None)


def _pairs(examination: Examination, requests: list[Examples]) -> Pairs | None:
    """Calls of both in turn, each first as often as the other; None where one was not answered."""
    found: list[tuple[float, float, float]] = []
    end = time.monotonic() + _MOST_SECONDS
    for number in range(_PAIRS + _WARM):
        if len(found) >= _LEAST_PAIRS and time.monotonic() > end:
            break
        place = number % len(requests)
        answers = _pair(examination, requests[place], candidate_first=number % 2 == 0)
        if answers is None:
            return None
        if number >= _WARM:
            found.append((*answers, place))
    mine, other, places = np.asarray(found).T
    return Pairs(mine, other, places.astype(np.int64))


def _pair(examination: Examination, request: Examples, candidate_first: bool) -> tuple[float, float] | None:
    mine = examination.ask(request) if candidate_first else None
    other = examination.ask_baseline(request.arrays)
    mine = mine or examination.ask(request)
    if mine.kind is not AnswerKind.OUTPUTS or other is None or other.kind is not AnswerKind.OUTPUTS:
        return None
    return mine.seconds, other.seconds


def _slower(examination: Examination, pairs: Pairs) -> bool:
    _, low, _ = ratio_interval(pairs.mine, pairs.other)
    return low > examination.limits.slower and pairs.slower > _LEAST_SLOWER


def _report_middle(examination: Examination, first: Pairs, again: Pairs | None) -> None:
    pairs = again or first
    ratio, low, high = ratio_interval(pairs.mine, pairs.other)
    slower = again is not None and _slower(examination, again)
    earlier = f"; measured twice, {ratio_interval(first.mine, first.other)[0]:.3g} times at first" if again else ""
    examination.report(
        "latency",
        "against the baseline",
        Outcome(examination.limits.slower_counts) if slower else Outcome.PASS,
        f"takes {ratio:.3g} times as long as the version that serves now ({low:.3g} to {high:.3g}, "
        f"{len(pairs)} calls of each){earlier}",
        number=ratio,
        interval=(low, high),
        limit=examination.limits.slower,
        cause={"kind": "slow"} if slower else None,
    )


def _report_tail(examination: Examination, requests: list[Examples], first: Pairs, again: Pairs | None) -> None:
    pairs = first.and_then(again) if again else first
    longer = again is not None and tail_chance(again) < _SUSPICION and tail_chance(pairs) < _CERTAINTY
    far, mine, other = pairs.far, float((pairs.mine > pairs.far).mean()), float((pairs.other > pairs.far).mean())
    sentence = (
        f"{100 * mine:.3g} % of its calls take more than {milliseconds(far)}, {_FAR:g} times what is usual; of those "
        f"of the version that serves now {100 * other:.3g} % ({len(pairs)} calls of each)"
    )
    culprit = _culprit(examination, requests, pairs) if longer else None
    if culprit is not None:
        sentence += f"; it is slow with {_named(culprit)}: {milliseconds(culprit.answer.seconds)} whenever it is asked"
    elif longer:
        slowest = milliseconds(float(pairs.mine.max()))
        sentence += f"; up to {slowest}, now and then: asked the same again, it is as fast as usual"
    examination.report(
        "latency",
        "slowest calls against the baseline",
        Outcome(examination.limits.slower_counts) if longer else Outcome.PASS,
        sentence,
        number=mine,
        example=example(_changed(culprit), culprit.example.row(0), culprit.answer) if culprit else None,
        cause={"kind": "slow"} if longer else None,
    )


def _culprit(examination: Examination, requests: list[Examples], pairs: Pairs) -> Culprit | None:
    """The rows that make a call slow whenever they are in it, as few as make it so; None where there are none."""
    end = time.monotonic() + _NARROW_SECONDS

    def fastest(rows: Examples) -> Answer:
        answers = [examination.ask(rows) for _ in range(_AGAIN if time.monotonic() < end else 1)]
        return min(answers, key=lambda answer: answer.seconds)

    def far(answer: Answer) -> bool:
        return answer.kind is AnswerKind.OUTPUTS and answer.seconds > pairs.far and time.monotonic() < end

    slowest = requests[int(pairs.requests[int(np.argmax(pairs.mine))])]
    answer = fastest(slowest)
    return narrow(slowest, answer, examination.good, fastest, far) if far(answer) else None


def _changed(culprit: Culprit) -> dict[str, Any]:
    rows = culprit.example
    return culprit.changed if len(culprit.changed) < len(rows.arrays) or len(rows.arrays) == 1 else {}


def _named(culprit: Culprit) -> str:
    changed = _changed(culprit)
    if changed and len(culprit.example) == 1:
        return f"{' and '.join(assignment(*one) for one in changed.items())} from real data"
    return "a row of real data" if len(culprit.example) == 1 else f"a batch of {len(culprit.example)} rows of real data"
