"""Moments as written documents carry them: RFC 3339 in UTC, to the second.

Verdicts, overrides, key rings and memories of admissions write and read their times here.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate_serving.contract.errors import InvalidInput

MOST_DAYS = 36_500
"""The longest span that anything here is given, a century: calendars end."""


def now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """As documents carry it."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def from_text(text: object, what: str) -> datetime:
    """The moment in a text, in UTC, which it is in where it names no zone. InvalidInput, naming `what`, for anything
    else, and for one that UTC has no date for."""
    try:
        if not isinstance(text, str):
            raise ValueError("not a text")
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} is {text!r}, which is no date: write it as 2026-01-31T12:00:00Z") from error
