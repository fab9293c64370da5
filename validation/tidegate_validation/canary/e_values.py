"""E-values: how strongly paired outcomes speak against a hypothesis about their mean, however often one looks.

Under the hypothesis the chance that an e-value ever reaches 1/a is at most a (Ville's inequality), so a canary may be
judged at every moment without spending error rate.

Source: betting on bounded means (Waudby-Smith and Ramdas, 2024), here as a fixed mixture of bets. A mixture depends
only on how often each outcome came, not on the order, so the state is three integers that add up over files and hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tidegate_validation.statistics.arrays import Floats

_BETS = 8
_BOLDEST = 0.98
_LEAST_BOLD = 0.25
_MOST_PAIRS = 10_000_000
_EQUAL = np.full(_BETS, 1.0 / _BETS)
_BOLD_FIRST = 1.0 / np.arange(1, _BETS + 1) / np.sum(1.0 / np.arange(1, _BETS + 1))
"""Most canaries never fail where the other does not, and then the boldest bet on that is the best."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes of pairs: the candidate alone was bad (+1), both were alike (0), the other alone was bad (-1).

    Where a pair is only good or bad, as for slowness, `better` stays 0 and `signed` False.
    """

    worse: int = 0
    same: int = 0
    better: int = 0
    signed: bool = True

    @property
    def pairs(self) -> int:
        """All of them."""
        return self.worse + self.same + self.better

    @property
    def excess(self) -> float:
        """The mean outcome; 0 for no pairs."""
        return (self.worse - self.better) / self.pairs if self.pairs else 0.0

    def scaled(self, pairs: int) -> Tally:
        """As many pairs in the same proportions; all alike where there are none yet."""
        if not self.pairs:
            return Tally(0, pairs, 0, self.signed)
        worse, better = (round(count * pairs / self.pairs) for count in (self.worse, self.better))
        return Tally(worse, pairs - worse - better, better, self.signed)


def against_worse(tally: Tally, margin: float) -> float:
    """log of the e-value against "the mean outcome is `margin` or more"; large: the candidate is good enough."""
    return _log_wealth(tally, margin, 1.0 / (1.0 - margin), np.log(_BOLD_FIRST))


def against_good(tally: Tally, margin: float) -> float:
    """log of the e-value against "the mean outcome is `margin` or less"; large: the candidate is too bad."""
    lowest = -1.0 if tally.signed else 0.0
    return _log_wealth(tally, margin, -1.0 / (margin - lowest), np.log(_EQUAL))


def pairs_until(tally: Tally, margin: float, log_needed: float) -> int | None:
    """How many pairs in all `against_worse` needs at the present proportions; None where it would never get there."""
    if against_worse(tally.scaled(_MOST_PAIRS), margin) < log_needed:
        return None
    low, high = tally.pairs, _MOST_PAIRS
    while low < high:
        middle = (low + high) // 2
        if against_worse(tally.scaled(middle), margin) >= log_needed:
            high = middle
        else:
            low = middle + 1
    return high


def _log_wealth(tally: Tally, margin: float, boldest: float, log_shares: Floats) -> float:
    """Wealth of a gambler who splits it by shares over bets from the boldest down; negative ones are on worse."""
    of_worse, of_same, of_better = _log_gains(margin, boldest, tally.better > 0)
    gains = tally.worse * of_worse + tally.same * of_same
    if tally.better:
        gains += tally.better * of_better
    return float(np.logaddexp.reduce(log_shares + gains))


@lru_cache(maxsize=64)
def _log_gains(margin: float, boldest: float, any_better: bool) -> tuple[Floats, Floats, Floats]:
    """What each bet gains by an outcome; where no pair may come out better, bets may be too bold for that."""
    bets = boldest * _BOLDEST * np.geomspace(1.0, min(margin, _LEAST_BOLD) / 2.0, _BETS)
    better = np.log1p(bets * (margin + 1.0)) if any_better else np.zeros(_BETS)
    return np.log1p(bets * (margin - 1.0)), np.log1p(bets * margin), better
