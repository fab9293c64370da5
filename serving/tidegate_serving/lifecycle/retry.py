"""How long a version that failed to load rests before it is tried again: growing pauses, spread by chance.

The manager asks after each failed attempt, as long as the version is wanted; for ever, unless the config bounds it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class RetryPauses:
    """`first` seconds after the first failure, doubling up to `most`, each up to a fifth longer by chance. After the
    first attempt there are at most `retries` more, `FOR_EVER` for no bound."""

    first: float = 1.0
    most: float = 600.0
    chance: Callable[[], float] = random.random
    retries: int = FOR_EVER

    def pause(self, failures: int) -> float:
        """Seconds to rest after so many failures in a row, one or more."""
        return float(min(self.first * 2.0 ** min(failures - 1, 60), self.most) * (1 + 0.2 * self.chance()))

    def are_spent(self, failures: int) -> bool:
        """Whether so many failures in a row leave no further attempt."""
        return self.retries != FOR_EVER and failures > self.retries
