"""Decisions that last: freeze windows, mutes of skew findings, and releases that were declined."""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.store import DecisionRow, ReleaseRow


def active_freeze(session: Session, model: str, now: datetime) -> DecisionRow | None:
    """The freeze window that holds back releases of a model now: of several the one that lasts longest."""
    return max(freezes_of(session, model, now), key=lambda row: row.until or now, default=None)


def freezes_of(session: Session, model: str, now: datetime) -> list[DecisionRow]:
    """Every freeze window that holds back releases of a model now, of its own name or by a pattern."""
    return [row for row in _active(session, "freeze", now) if fnmatchcase(model, row.model)]


def muted_features(session: Session, model: str, now: datetime) -> dict[str, DecisionRow]:
    """The mute of each feature of a model whose skew is to alert nobody now; "" is the model as a whole."""
    return {row.feature: row for row in _active(session, "mute", now) if row.model == model}


def declined() -> ColumnElement[bool]:
    """Releases that a person declined: whoever did that knows, and nobody has to see to them."""
    return select(DecisionRow.id).where(DecisionRow.kind == "decline", DecisionRow.release_id == ReleaseRow.id).exists()


def end(session: Session, kind: str, model: str, feature: str, now: datetime) -> int:
    """Ends what lasts of a kind; how many that were."""
    lasting = (
        DecisionRow.kind == kind,
        DecisionRow.model == model,
        DecisionRow.feature == feature,
        DecisionRow.ended_at.is_(None),
        DecisionRow.until > now,
    )
    ended = session.scalars(update(DecisionRow).where(*lasting).values(ended_at=now).returning(DecisionRow.id))
    return len(ended.all())


def _active(session: Session, kind: str, now: datetime) -> list[DecisionRow]:
    lasting = DecisionRow.kind == kind, DecisionRow.until > now, DecisionRow.ended_at.is_(None)
    rows = session.scalars(select(DecisionRow).where(*lasting).order_by(DecisionRow.id))
    return [row for row in rows if row.since is None or row.since <= now]
