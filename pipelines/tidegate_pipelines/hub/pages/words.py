"""Numbers and moments in the words of a page: short, with their unit, and the same everywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_DAY = 86400
_SPANS = ((60 * _DAY, 30.4 * _DAY, "months"), (2 * _DAY - 1800, _DAY, "days"), (3570, 3600, "h"), (59.5, 60, "min"))
"""From how many seconds a unit is used, so that none is rounded up to a larger one, its size, and its name."""
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def count_words(value: float) -> str:
    """12,345 as 12.3 k."""
    for size, unit in _UNITS:
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def share_words(value: float) -> str:
    """0.0123 as 1.23 %."""
    return f"{100 * value:.3g} %"


def seconds_words(value: float) -> str:
    """0.0123 as 12.3 ms."""
    if value == 0:
        return "0"
    return f"{value:.3g} s" if value >= 0.9995 else f"{1000 * value:.3g} ms"


def effect_words(value: float) -> str:
    """The size of a difference, with two digits behind the point."""
    return f"{value:.2f}"


def ago_words(moment: datetime, now: datetime) -> str:
    """How long ago, or in how long, in one unit."""
    passed = now - moment
    if abs(passed) < timedelta(seconds=5):
        return "just now"
    text = span_words(abs(passed))
    return f"{text} ago" if passed > timedelta() else f"in {text}"


def span_words(length: timedelta) -> str:
    """How long, in one unit."""
    seconds = length.total_seconds()
    for least, size, unit in _SPANS:
        if seconds >= least:
            return f"{seconds / size:.0f} {unit}"
    return "less than a second" if seconds < 1 else f"{seconds:.0f} s"


def second_words(moment: datetime) -> str:
    """A moment for a list whose head says that its times are in UTC: day and second, without the year."""
    return f"{moment.astimezone(UTC):%-d %b %H:%M:%S}"


def moment_words(moment: datetime, beside: datetime | None = None) -> str:
    """A moment in UTC, for people; to the second where the one beside it is less than a minute away."""
    close = beside is not None and abs(moment - beside) < timedelta(minutes=1)
    return f"{moment.astimezone(UTC):{'%-d %b %Y %H:%M:%S' if close else '%-d %b %Y %H:%M'}} UTC"
