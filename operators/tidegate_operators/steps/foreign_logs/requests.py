"""What is found in another server's log: requests with their rows, and places where one cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate_operators.steps.foreign_logs.rows import Row


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `where` it stands in words, its id, when it came (ISO 8601, None where nothing tells it), and a row
    per example, its answer included."""

    where: str
    name: str
    time: str | None
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Unread:
    """A place at which a request cannot be read and why; where a file breaks off, how many there may have been."""

    where: str
    why: str
    requests: int = 1


def with_answers(asked: Sequence[Row], given: Sequence[Row]) -> list[Row]:
    """Rows with the outputs of the same place, called out.NAME where an input has the name."""
    return [_joined(row, given[place] if place < len(given) else {}) for place, row in enumerate(asked)]


def _joined(row: Row, answer: Mapping[str, object]) -> Row:
    return {**row, **{(f"out.{name}" if name in row else name): value for name, value in answer.items()}}
