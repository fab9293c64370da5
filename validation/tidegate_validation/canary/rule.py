"""What a canary must show: how much worse than the serving version it may be, and how sure one wants to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.typed_config import read_config


@dataclass(frozen=True, slots=True)
class CanaryRule:
    """How much worse a canary may be, and how sure one wants to be before it is promoted or refused.

    `fraction` of requests is shadowed, 0 to 1, for at most `within_seconds`. Three checks compare each shadowed answer
    with the primary answer to the same request:

    - faults (errors, NaN, infinity): their share may exceed that of the serving version by less than `max_error_share`;
    - slowness: less than `max_slow_share` of the shadowed answers may take longer than `latency_factor` times the
      primary ones plus `latency_grace_us` microseconds;
    - disagreement: only where `max_disagreement` or `max_difference` is given, since two good models differ. Less than
      `max_disagreement` (0.01 where only the other is given) of the answers may disagree: in a label, or, with
      `max_difference`, in a real output by more than that.

    `error_rate` bounds both mistakes, promoting a version that is worse by a margin or more and refusing one that is
    not, however often one looks. A promotion needs at least `pairs` compared answers; the evidence usually asks for
    more: about `3 / margin` where nothing goes wrong.
    """

    fraction: float = 1.0
    pairs: int = 100
    within_seconds: float = 60.0
    max_error_share: float = 0.01
    max_slow_share: float = 0.5
    latency_factor: float = 10.0
    latency_grace_us: float = 50_000.0
    max_difference: float | None = None
    max_disagreement: float | None = None
    error_rate: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise InvalidInput(f"a canary's fraction is {self.fraction}: use more than 0 and at most 1")
        if self.pairs < 1:
            raise InvalidInput(f"a canary's pairs is {self.pairs}: at least 1 answer must be compared")
        if self.within_seconds <= 0.0:
            raise InvalidInput(f"a canary's within_seconds is {self.within_seconds}: give it some time")
        if not 0.0 < self.error_rate < 0.5:
            raise InvalidInput(f"a canary's error_rate is {self.error_rate}: use a chance such as 0.05")
        for name in ("max_error_share", "max_slow_share", "max_disagreement"):
            share = getattr(self, name)
            if share is not None and not 0.0 < share < 1.0:
                raise InvalidInput(
                    f"a canary's {name} is {share}: use a share between 0 and 1, such as 0.01; that nothing at all "
                    "ever goes wrong cannot be shown by any number of answers"
                )

    @property
    def disagreement_margin(self) -> float | None:
        """The share of disagreeing answers that is too much; None where disagreement is not judged."""
        if self.max_disagreement is None and self.max_difference is not None:
            return 0.01
        return self.max_disagreement

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CanaryRule:
        """From names and values, which may be strings as templates make them; unknown names are refused."""
        return read_config(cls, data, "a canary's rule", texts=True)
