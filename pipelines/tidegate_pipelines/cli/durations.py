"""Spans of time as people type them: `30m`, `4h`, `2d`, `1h30m`.

Commands with an option for one parse it here.
"""

from __future__ import annotations

import re
from datetime import timedelta

import typer

from tidegate_serving.contract import times

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+\Z")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def duration(text: str, option: str) -> timedelta:
    """The span; typer.BadParameter, naming the option, for what is none or nothing."""
    if not _WHOLE.match(text):
        raise typer.BadParameter(f"{text!r} is no span of time: write 30m, 4h or 2d", param_hint=option)
    try:
        span = sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        span = timedelta.max
    if span > timedelta(days=times.MOST_DAYS):
        raise typer.BadParameter(f"{text!r} is too long: write at most {times.MOST_DAYS}d", param_hint=option)
    if span <= timedelta():
        raise typer.BadParameter(f"{text!r} is over at once: write 30m, 4h or 2d", param_hint=option)
    return span
