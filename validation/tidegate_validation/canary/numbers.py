"""What the inference log says of a canary by now, in requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class CanaryNumbers:
    """Counts of requests that the canary answered, each compared with one that the serving version answered: in shadow
    mode the same request, in traffic mode the one that came just before.

    `shadowed` were copied, `compared` of these have both answers logged. Among the compared: `errors` and `not_finite`
    that only the canary answered with an error, or with a NaN or an infinity; `primary_faults` where only the serving
    version did either; `disagreements` whose answers differ by more than the rule tolerates; `slow` that took longer
    than it allows. In traffic mode nothing is shadowed: `answered` are the canary's answers to clients, `share` what it
    got of the traffic in the end; of `labelled` pairs `wrong` were wrong in the canary alone, `primary_wrong` in the
    serving version alone. `max_difference` is the largest difference of a real output where both answered; latencies
    are medians in microseconds.
    """

    shadowed: int = 0
    compared: int = 0
    errors: int = 0
    not_finite: int = 0
    primary_faults: int = 0
    disagreements: int = 0
    slow: int = 0
    max_difference: float = 0.0
    primary_latency_us: float = 0.0
    shadow_latency_us: float = 0.0
    answered: int = 0
    share: float = 0.0
    labelled: int = 0
    wrong: int = 0
    primary_wrong: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON; a difference that is not finite is null."""
        found = asdict(self)
        if not math.isfinite(self.max_difference):
            found["max_difference"] = None
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CanaryNumbers:
        """From JSON; what else the document holds is left aside."""
        found = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        if found.get("max_difference", 0.0) is None:
            found["max_difference"] = math.inf
        return cls(**found)
