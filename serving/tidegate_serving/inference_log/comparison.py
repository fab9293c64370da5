"""The result of comparing shadow answers with primary ones: agreement, latency, errors.

`compare` makes it from the log; `Engine.compare` adds the engine's own counts of copies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """One output of both versions, over all pairs that succeeded on both sides.

    `elements` were compared; `agreement` is the share of them that are equal, `disagreements` their number. For outputs
    of several real elements per row, such as class scores, `top_agreement` is the share of rows whose largest element
    stands at the same place. Differences are absolute, of numbers only; NaN or a missing element against a number is an
    infinite one. `correlation` is Pearson's over finite elements. NaN where a figure has no meaning.
    """

    real: bool
    elements: int = 0
    disagreements: int = 0
    agreement: float = math.nan
    max_difference: float = math.nan
    mean_difference: float = math.nan
    correlation: float = math.nan
    top_agreement: float = math.nan


@dataclass(frozen=True, slots=True)
class SideComparison:
    """One version's answers among the pairs: latency quantiles of the good ones in microseconds, errors by code."""

    p50_us: float = math.nan
    p90_us: float = math.nan
    p99_us: float = math.nan
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShadowCounts:
    """Copies of requests for a shadow version, as the engine counted them.

    copied: made; dropped: found its queue full; failed: did not fit its signature.
    """

    copied: int
    dropped: int
    failed: int

    @classmethod
    def of(cls, counters: Mapping[str, float], model: str, version: int) -> ShadowCounts:
        """Those of one version among the data plane's counters by sample name."""
        labels = f'{{model="{model}",version="{version}"}}'
        names = (f"tidegate_shadow_{what}_total{labels}" for what in ("copied", "dropped", "failed"))
        return cls(*(int(counters.get(name, 0)) for name in names))


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the pairs show.

    `shadowed` counts answered copies, `compared` those whose primary answer is logged too and which succeeded on both
    sides, `failed` the copies that did not succeed where the primary did. `copies` is None where only the log was
    asked.
    """

    shadowed: int = 0
    compared: int = 0
    failed: int = 0
    outputs: Mapping[str, OutputComparison] = field(default_factory=dict)
    primary: SideComparison = field(default_factory=SideComparison)
    shadow: SideComparison = field(default_factory=SideComparison)
    copies: ShadowCounts | None = None

    @property
    def max_difference(self) -> float:
        """The largest difference of any real output; 0 where there is none."""
        return max(
            (output.max_difference for output in self.outputs.values() if output.real and output.elements), default=0.0
        )
