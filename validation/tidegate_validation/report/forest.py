"""The forest plot of a verdict: each slice's gain with its interval, in units of its margin.

Slices differ in metric and unit; the margin is the one measure that they share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate_serving.admission import Finding, GateResult, Outcome
from tidegate_validation.quality.metrics.gains import EVERYTHING, change_in_words
from tidegate_validation.quality.slices.finding import SLICE_TABLE

_ROWS = 30
_WIDEST = 5.0
_GRAVITY = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.WARN, Outcome.PASS, Outcome.ERROR)


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One gain. `low`, `number` and `high` are places from 0 to 100; `words` says them in the metric's own unit."""

    label: str
    outcome: Outcome
    words: str
    low: float
    number: float
    high: float


@dataclass(frozen=True, slots=True)
class Forest:
    """Rows from the surest loss down, the places of no change and of the margin, and how many slices are left out."""

    rows: tuple[ForestRow, ...]
    zero: float
    margin: float
    left_out: int


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    outcome: Outcome
    metric: str
    gain: float
    low: float
    high: float
    margin: float
    relative: bool
    units: str

    def words(self) -> str:
        low, gain, high = (change_in_words(value, self.relative) for value in (self.low, self.gain, self.high))
        return f"{self.metric} {gain} ({low} to {high}){self.units}"


def forest_of(gates: Iterable[GateResult]) -> Forest | None:
    """The plot of the first gate that compared anything, None where none did."""
    for gate in gates:
        overall = [gain for finding in gate.findings if (gain := _overall(finding)) is not None]
        slices = [_slice(row) for finding in gate.findings for row in _table(finding)]
        if overall or slices:
            slices.sort(key=lambda one: (_GRAVITY.index(one.outcome), one.low / one.margin))
            return _drawn([*overall, *slices])
    return None


def _overall(finding: Finding) -> _Row | None:
    """A finding that holds a gain against a margin, which is the negative limit."""
    if finding.subject != EVERYTHING or finding.interval is None or finding.number is None:
        return None
    if finding.limit is None or finding.limit >= 0 or finding.rule is None:
        return None
    low, high = finding.interval
    relative = finding.rule.endswith("loss_margin")
    return _Row(EVERYTHING, finding.outcome, finding.check, finding.number, low, high, -finding.limit, relative, "")


def _table(finding: Finding) -> Sequence[Mapping[str, Any]]:
    if finding.check != SLICE_TABLE or not finding.example:
        return ()
    return [row for row in finding.example["slices"] if row["margin"] > 0 and _is_whole(row)]


def _is_whole(row: Mapping[str, Any]) -> bool:
    return all(isinstance(value, int | float) for value in (row["gain"], *row["interval"]))


def _slice(row: Mapping[str, Any]) -> _Row:
    low, high = row["interval"]
    return _Row(
        label=row["slice"],
        outcome=Outcome(row["outcome"]),
        metric=row["metric"],
        gain=row["gain"],
        low=low,
        high=high,
        margin=row["margin"],
        relative=row["relative"],
        units=f", {row['rows']:,} examples",
    )


def _drawn(gains: Sequence[_Row]) -> Forest:
    shown = gains[:_ROWS]
    ends = [abs(value) / one.margin for one in shown for value in (one.low, one.high)]
    reach = 1.08 * min(_WIDEST, max([1.5, *ends]))

    def place(value: float) -> float:
        return round(50 + 50 * max(-1.0, min(1.0, value / reach)), 2)

    rows = tuple(
        ForestRow(
            label=one.label,
            outcome=one.outcome,
            words=one.words(),
            low=place(one.low / one.margin),
            number=place(one.gain / one.margin),
            high=place(one.high / one.margin),
        )
        for one in shown
    )
    return Forest(rows, place(0.0), place(-1.0), len(gains) - len(shown))
