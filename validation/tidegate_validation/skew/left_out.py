"""Requests of another server's log that were left out of a report, and what that makes of its outcome."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_serving.admission import Finding, Outcome

CHECK = "requests left out"
SHOWN = 20
_WARNED, _DECIDED = 0.01, 0.2
"""Up to one in a hundred is what clients send anywhere; of a log of which a fifth is missing, the rest says little."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many requests `of` all were left out, and for the first of them where they stand and why."""

    requests: int
    of: int
    examples: tuple[tuple[str, str], ...]

    @property
    def share(self) -> float:
        """Of all requests."""
        return self.requests / max(self.of, 1)

    @property
    def sentence(self) -> str:
        """How many, and one of them."""
        where, why = self.examples[0]
        return (
            f"{self.requests:,} of {self.of:,} requests ({100 * self.share:.2f} %) were left out, for they cannot be "
            f"read or do not fit in, such as {where}: {why}"
        )

    def finding(self) -> Finding:
        """Beyond 1 % a WARN, beyond 20 % INCONCLUSIVE."""
        much = self.share > _DECIDED
        outcome = Outcome.INCONCLUSIVE if much else Outcome.WARN if self.share > _WARNED else Outcome.PASS
        return Finding(
            CHECK,
            "requests",
            outcome,
            self.sentence,
            number=self.share,
            limit=_DECIDED if much else _WARNED,
            example={"requests": [f"{where}: {why}" for where, why in self.examples]},
        )

    def of_report(self, outcome: Outcome) -> Outcome:
        """What becomes of a report's outcome: what passes may do so no longer, what fails goes on failing."""
        told = self.finding().outcome
        lesser = {Outcome.WARN: (Outcome.PASS,), Outcome.INCONCLUSIVE: (Outcome.PASS, Outcome.WARN)}
        return told if outcome in lesser.get(told, ()) else outcome
