"""Numbers and moments in the words of a page: short, with their unit, and the same everywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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
    text = span_words(abs(passed))
    if text == "now":
        return "just now"
    return f"{text} ago" if passed > timedelta() else f"in {text}"


def span_words(length: timedelta) -> str:
    """How long, in one unit."""
    seconds = length.total_seconds()
    for size, unit in ((86400 * 60, "months"), (86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size * (2 if unit == "days" else 1):
            number = seconds / (86400 * 30.4 if unit == "months" else size)
            return f"{number:.0f} {unit}"
    return "now" if seconds < 5 else f"{seconds:.0f} s"


def moment_words(moment: datetime, beside: datetime | None = None) -> str:
    """A moment in UTC, for people; to the second where the one beside it is less than a minute away."""
    close = beside is not None and abs(moment - beside) < timedelta(minutes=1)
    return f"{moment.astimezone(UTC):{'%-d %b %Y %H:%M:%S' if close else '%-d %b %Y %H:%M'}} UTC"
