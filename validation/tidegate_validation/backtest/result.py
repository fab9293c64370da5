"""What a backtest found, as frozen values that know how to become a dict; the page draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidegate_validation.counts import counted, few

VERSION = "1"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ReleaseTrial:
    """A past release, judged by the rows before it against the version that served then.

    `refused` is None where it could not be judged; `reasons` are the sentences of the gates that deny it, and `unseen`
    says which gates had nothing to judge by, and why.
    """

    name: str
    released: str
    against: str | None
    outcome: str | None
    refused: bool | None
    sentence: str
    reasons: tuple[str, ...] = ()
    rows: int = 0
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Consecutive windows in which a column was told to differ: the days of the first and the last such window, since
    when by the report, and in words why; `name` is the version that served."""

    column: str
    name: str
    told: int
    until: int
    since: str | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Drift:
    """An alarm of ours with what the metrics said: `metric_told` is the day on which a loss above the margin was known,
    `ahead` by how many days the alarm came before that; both None where no such loss followed or no labels are known.
    """

    alarm: Alarm
    metric_told: int | None
    ahead: int | None


@dataclass(frozen=True, slots=True)
class MetricLoss:
    """Days on which the metric of a version was known to be worse than before its release by more than the margin."""

    name: str
    told: int
    until: int
    sentence: str


@dataclass(frozen=True, slots=True)
class AlarmCount:
    """How often a rule would have called somebody: `followed` alarms were followed by a loss in the metrics within the
    horizon, None without labels. `days` are days with any alarm."""

    rule: str
    alarms: int
    days: int
    followed: int | None


@dataclass(frozen=True, slots=True)
class Backtest:
    """Everything that was found, for days from `first` up to but without `end`.

    `losses` are mean losses by day and `loss` says which; `unjudged` are sentences on what could not be told.
    """

    first: int
    end: int
    rows: int
    releases: tuple[ReleaseTrial, ...]
    drifts: tuple[Drift, ...]
    metric_losses: tuple[MetricLoss, ...]
    counts: tuple[AlarmCount, ...]
    losses: Mapping[int, float]
    loss: str
    unjudged: tuple[str, ...]
    settings: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """What it comes to."""
        judged = [one for one in self.releases if one.refused is not None]
        refused = [one for one in judged if one.refused]
        ahead = sorted(one.ahead for one in self.drifts if one.ahead is not None)
        words = f"{len(refused)} of {len(judged)} past releases would have been refused"
        if refused:
            words += f" ({few([f'`{one.name}`' for one in refused], _SHOWN)})"
        if left := len(self.releases) - len(judged):
            words += f", {left} more could not be judged"
        words += f"; {counted(len(self.drifts), 'drift')} would have been named"
        if ahead:
            words += f", {len(ahead)} of them beside a loss in the metrics, {_middle(ahead)} in the median"
        return words

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag; days are counted from 1970-01-01."""
        return {"format": f"tidegate.backtest/{VERSION}", "sentence": self.sentence, **asdict(self)}


def _middle(days: Sequence[int]) -> str:
    middle = days[len(days) // 2]
    return f"{middle} days before it" if middle >= 0 else f"{-middle} days after it"
