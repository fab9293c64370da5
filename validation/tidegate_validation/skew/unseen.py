"""How many served values training never held, against how often a new day brings a new value anyway: the numbers.

`measure` fills this from counts; the expected rate is Good's (1953) estimate from training, taken by blocks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unseen:
    """`unseen` of `rows` rows held a value that training never held, where `expected` (a rate) do by nature.

    `cluster` is how many rows share one such value in training: they count as one, because they came together.
    `number` says that the values are numbers, not categories.
    """

    rows: int
    unseen: int
    expected: float
    cluster: float
    number: bool = False

    @property
    def share(self) -> float:
        """Share of rows with a value that training never held."""
        return self.unseen / self.rows if self.rows else 0.0

    def p_value(self, rate: float) -> float:
        """Probability of this many unseen rows or more if their true rate were `rate`; a binomial over clusters."""
        from scipy import special

        if self.unseen == 0:
            return 1.0
        if rate >= 1.0:
            return 1.0
        hits, tries = self.unseen / self.cluster, self.rows / self.cluster
        return float(special.betainc(max(hits, 1e-9), tries - hits + 1, rate))
