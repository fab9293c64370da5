"""A backtest as a page that needs nothing from outside, and as JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.admission import Outcome
from tidegate_serving.files import write_atomically
from tidegate_validation.backtest.drifts import OURS
from tidegate_validation.backtest.history import day_text
from tidegate_validation.backtest.result import Backtest, Drift
from tidegate_validation.counts import counted
from tidegate_validation.report.look import environment

_PAGE, _TWIN = "index.html", "backtest.json"
_ROWS = 24


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of days on a strip, from 0 to 100, and in words."""

    left: float
    width: float
    words: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One line of the picture: a column, or the metrics; `kind` chooses the colour."""

    label: str
    kind: str
    bars: tuple[Bar, ...]


def write_backtest(found: Backtest, directory: Path) -> Path:
    """Writes `index.html` and `backtest.json` into `directory`; returns the page's path."""
    document = json.dumps(found.to_dict(), indent=1, ensure_ascii=False, default=str)
    write_atomically(directory / _TWIN, document + "\n")
    template = environment("tidegate_validation.backtest").get_template("backtest.html.jinja")
    page = template.render(
        found=found,
        outcome=_outcome(found),
        ours=OURS,
        releases=[(Outcome(one.outcome or "INCONCLUSIVE"), one) for one in found.releases],
        strips=_strips(found),
        marks=[(_place(found, one.released), one) for one in found.releases],
        losses=_line(found),
        facts=_facts(found),
        left_out=max(0, len(_columns(found)) - _ROWS),
        day=day_text,
        twin=_TWIN,
    )
    write_atomically(directory / _PAGE, page)
    return directory / _PAGE


def _facts(found: Backtest) -> list[tuple[str, str]]:
    told = found.settings
    return [
        ("Gates that judge releases", ", ".join(told["gates"])),
        ("Rows they were judged by", f"labelled ones of {counted(told['days'], 'day')} before each"),
        (
            "Windows of served rows",
            f"{told['windows']} of {counted(told['window'], 'day')}, every {counted(told['step'], 'day')}",
        ),
        ("A label is known after", counted(told["delay"], "day")),
        ("A loss follows an alarm", f"within {told['horizon']} days"),
    ]


def _outcome(found: Backtest) -> Outcome:
    if any(one.refused for one in found.releases):
        return Outcome.FAIL
    if found.drifts:
        return Outcome.WARN
    return Outcome.INCONCLUSIVE if found.unjudged else Outcome.PASS


def _columns(found: Backtest) -> list[str]:
    return list(dict.fromkeys(one.alarm.column for one in found.drifts))


def _strips(found: Backtest) -> list[Strip]:
    drawn = [Strip(name, "drift", tuple(_bars(found, name))) for name in _columns(found)[:_ROWS]]
    if found.metric_losses:
        bars = tuple(_bar(found, one.told, one.until, f"{one.name}: {one.sentence}") for one in found.metric_losses)
        drawn.append(Strip("metrics", "loss", bars))
    return drawn


def _bars(found: Backtest, column: str) -> Iterable[Bar]:
    for one in found.drifts:
        if one.alarm.column == column:
            yield _bar(found, one.alarm.told, one.alarm.until, _words(one))


def _words(drift: Drift) -> str:
    alarm = drift.alarm
    return f"{day_text(alarm.told)} to {day_text(alarm.until)}: {alarm.sentence}"


def _bar(found: Backtest, first: int, last: int, words: str) -> Bar:
    whole = found.end - found.first
    left = 100 * (first - found.first) / whole
    return Bar(round(left, 2), round(max(100 * (last + 1 - first) / whole, 0.8), 2), words)


def _place(found: Backtest, day: str) -> float | None:
    """Where a release lies on a strip; None outside the log."""
    from datetime import date

    from tidegate_validation.backtest.history import day_number

    place = 100 * (day_number(date.fromisoformat(day)) - found.first) / (found.end - found.first)
    return round(place, 2) if 0 <= place <= 100 else None


def _line(found: Backtest) -> str:
    """Points of the daily loss for an SVG 100 wide and 40 high; empty without any."""
    if not found.losses:
        return ""
    highest = max(found.losses.values()) or 1.0
    whole = max(found.end - found.first, 1)
    points = [
        f"{100 * (day + 0.5 - found.first) / whole:.2f},{38 - 36 * loss / highest:.2f}"
        for day, loss in sorted(found.losses.items())
    ]
    return " ".join(points)
