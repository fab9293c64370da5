"""What stands in engines of a model: what anybody decided there, why no request is answered, what is in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.store import EngineRow

_OFF, _DISABLED, _PROBLEM = "disable", "disabled", "problem"


@dataclass(frozen=True, slots=True)
class Told:
    """One thing, in the engine's words. `action` is that of a decision, such as `pin`, `block` or `disable`, or says
    that no request is answered without that (`disabled`), or that its source cannot be read (`problem`)."""

    engine: str
    action: str
    text: str
    who: str = ""
    reason: str = ""
    at: datetime | None = None
    version: int = 0

    @property
    def disables(self) -> bool:
        """Whether no request is answered for it."""
        return self.action in (_OFF, _DISABLED)


def told_by_engines(session: Session, model: str) -> list[Told]:
    """What each said when it last answered."""
    query = select(EngineRow.name, EngineRow.status["models"]).order_by(EngineRow.name)
    return [one for engine, models in session.execute(query) for one in _told(engine, (models or {}).get(model, {}))]


def _told(engine: str, said: Mapping[str, Any]) -> Iterator[Told]:
    decided = [_decided(engine, one) for one in said.get("overrides", ())]
    yield from decided
    if said.get(_DISABLED) and not any(one.action == _OFF for one in decided):
        yield Told(engine, _DISABLED, said[_DISABLED])
    if said.get(_PROBLEM):
        yield Told(engine, _PROBLEM, said[_PROBLEM])


def _decided(engine: str, one: Mapping[str, Any]) -> Told:
    at = datetime.fromtimestamp(one["at_us"] / 1e6, UTC) if one.get("at_us") else None
    return Told(engine, one["action"], one["text"], one["by"], one["reason"], at, one.get("version", 0))
