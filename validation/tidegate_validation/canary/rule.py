"""What a canary must show: how much worse than the serving version it may be, and how sure one wants to be."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_serving.contract.desired_state import Split
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.typed_config import read_config

_LIMITS = {"shadow": 60.0, "traffic": 3600.0}


class CanaryMode(enum.StrEnum):
    """`shadow`: clients never get the canary's answers; `traffic`: a growing share of them does."""

    SHADOW = "shadow"
    TRAFFIC = "traffic"


@dataclass(frozen=True, slots=True)
class CanaryRule:
    """How much worse a canary may be, and how sure one wants to be before it is promoted or refused.

    In `mode` shadow `fraction` of requests is copied, 0 to 1. Three checks compare each shadowed answer with the
    primary answer to the same request:

    - faults (errors, NaN, infinity): their share may exceed that of the serving version by less than `max_error_share`;
    - slowness: less than `max_slow_share` of the shadowed answers may take longer than `latency_factor` times the
      primary ones plus `latency_grace_us` microseconds;
    - disagreement: only where `max_disagreement` or `max_difference` is given, since two good models differ. Less than
      `max_disagreement` (0.01 where only the other is given) of the answers may disagree: in a label, or, with
      `max_difference`, in a real output by more than that.

    In `mode` traffic the canary answers `shares` of ordinary requests, one share after the other, each for at least
    `step_rows` of its answers and `step_seconds`. Who sends the same value of header or metadata `key` stays on a
    version while shares grow. Each of its answers is compared with that of the serving version to the request that came
    just before:

    - faults, as above;
    - slowness: less than `max_slow_share` may take longer than `1 + max_slowdown` times the other, plus
      `slowdown_grace_us`. At a half that speaks of medians, whatever the latencies' distribution is;
    - quality, where `labels` names a Parquet file or a folder of them, with columns `request_id` and `label`, which may
      come meanwhile: the share of wrong answers may exceed that of the serving version by less than `max_quality_loss`.
      What is compared with the label is `quality_output`, which may be left out where there is one; a real number is a
      yes from 0.5 on, of two a row that of the yes: the second, unless the manifest's metadata `classes` say otherwise.

    Either lasts at most `within_seconds`, by default a minute for shadows and an hour for traffic.

    `error_rate` bounds both mistakes, promoting a version that is worse by a margin or more and refusing one that is
    not, however often one looks. A promotion needs at least `pairs` compared answers; the evidence usually asks for
    more: about `3 / margin` where nothing goes wrong.
    """

    fraction: float = 1.0
    pairs: int = 100
    within_seconds: float | None = None
    max_error_share: float = 0.01
    max_slow_share: float = 0.5
    latency_factor: float = 10.0
    latency_grace_us: float = 50_000.0
    max_difference: float | None = None
    max_disagreement: float | None = None
    error_rate: float = 0.05
    mode: CanaryMode = CanaryMode.SHADOW
    shares: tuple[float, ...] = (0.01, 0.05, 0.25, 1.0)
    step_rows: int = 100
    step_seconds: float = 10.0
    key: str = ""
    max_slowdown: float = 0.2
    slowdown_grace_us: float = 1000.0
    labels: str = ""
    quality_output: str = ""
    max_quality_loss: float = 0.02

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise InvalidInput(f"a canary's fraction is {self.fraction}: use more than 0 and at most 1")
        if self.pairs < 1:
            raise InvalidInput(f"a canary's pairs is {self.pairs}: at least 1 answer must be compared")
        if self.within_seconds is not None and self.within_seconds <= 0.0:
            raise InvalidInput(f"a canary's within_seconds is {self.within_seconds}: give it some time")
        if not 0.0 < self.error_rate < 0.5:
            raise InvalidInput(f"a canary's error_rate is {self.error_rate}: use a chance such as 0.05")
        for name in ("max_error_share", "max_slow_share", "max_disagreement", "max_quality_loss"):
            share = getattr(self, name)
            if share is not None and not 0.0 < share < 1.0:
                raise InvalidInput(
                    f"a canary's {name} is {share}: use a share between 0 and 1, such as 0.01; that nothing at all "
                    "ever goes wrong cannot be shown by any number of answers"
                )
        if self.mode is CanaryMode.TRAFFIC:
            self._check_traffic()

    def _check_traffic(self) -> None:
        shares = self.shares
        grows = all(before < after for before, after in zip((0.0, *shares), shares, strict=False))
        if not shares or not grows or shares[0] >= 1.0 or shares[-1] > 1.0:
            raise InvalidInput(
                f"a canary's shares are {shares}: let them grow from more than 0 to at most 1, and let the first be "
                "less, so that there is something to compare with, such as 0.01, 0.05, 0.25, 1"
            )
        if self.step_rows < 0 or self.step_seconds < 0.0:
            raise InvalidInput(
                f"a canary's step_rows is {self.step_rows}, step_seconds {self.step_seconds}: use 0 or more"
            )
        if self.max_slowdown < 0.0 or self.slowdown_grace_us < 0.0:
            raise InvalidInput(
                f"a canary's max_slowdown is {self.max_slowdown}, slowdown_grace_us "
                f"{self.slowdown_grace_us}: use 0 or more"
            )
        Split({0: 1.0}, self.key)  # refuses what can be no header
        if self.disagreement_margin is not None:
            raise InvalidInput(
                "max_disagreement and max_difference compare two answers to one request, which only mode shadow has: "
                "leave them out in mode traffic, or bound the quality by labels"
            )

    @property
    def seconds(self) -> float:
        """For how long it is observed at most."""
        return _LIMITS[self.mode] if self.within_seconds is None else self.within_seconds

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
