"""Releases that were asked for, what happened in each, and the verdicts that came of them."""

from __future__ import annotations

import enum
from datetime import datetime

from sqlalchemy import Enum, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from tidegate_pipelines.hub.store.base import MOST_NAME, Base, Counted, Document, LongText, Name, Number, Word


class ReleaseState(enum.StrEnum):
    """Where a release stands; those in `FINAL` never change again."""

    REQUESTED = "REQUESTED"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    RELEASED = "RELEASED"
    REFUSED = "REFUSED"
    SUPERSEDED = "SUPERSEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


FINAL = frozenset(
    {
        ReleaseState.RELEASED,
        ReleaseState.REFUSED,
        ReleaseState.SUPERSEDED,
        ReleaseState.FAILED,
        ReleaseState.CANCELLED,
    }
)


class ModelRow(Base):
    """A model that the hub has heard of; `team` is who it belongs to, empty for everybody.

    `last_release` and `last_window` are the ids of its last release and of its latest skew window as a whole, written
    with these, so that a list of thousands of models looks for neither.
    """

    __tablename__ = "models"

    name: Mapped[Name] = mapped_column(primary_key=True)
    team: Mapped[Name] = mapped_column(default="")
    first_seen: Mapped[datetime]
    last_release: Mapped[Number | None]
    last_window: Mapped[Number | None]


class ReleaseRow(Base):
    """One request for a release, and what became of it.

    `source` says where the request came from (`mlflow`, `api`, ...), `request_key` makes the same request arrive once.
    `stage` is the step it stands in, or stopped in. `claimed_by` runs it, and has to say so again before
    `claimed_until`; who finds that time past may take it over. `attempts` counts who took it up since it was last
    put off or waited, `delays` how often it was put off in a row because something did not answer, `not_before` when it
    is tried again. `external_run` is the run in Airflow or Kubeflow. `told_state` is the state that the registry was
    last told.
    """

    __tablename__ = "releases"
    __table_args__ = (
        Index("ix_releases_model_requested_at", "model", "requested_at"),
        Index("ix_releases_state_requested_at", "state", "requested_at"),
        Index("ix_releases_requested_at", "requested_at"),
        # One winner at a time per model, whatever else fails.
        Index(
            "uq_releases_running_model",
            "model",
            unique=True,
            sqlite_where=text("state = 'RUNNING'"),
            postgresql_where=text("state = 'RUNNING'"),
        ),
    )

    id: Mapped[Counted]
    model: Mapped[Name]
    version: Mapped[Number]
    source: Mapped[Word]
    request_key: Mapped[str | None] = mapped_column(String(MOST_NAME), unique=True)
    requested_by: Mapped[Name]
    requested_at: Mapped[datetime]
    reason: Mapped[LongText] = mapped_column(default="")
    settings: Mapped[Document] = mapped_column(default=dict)
    state: Mapped[ReleaseState] = mapped_column(
        Enum(ReleaseState, native_enum=False, length=16, create_constraint=False), default=ReleaseState.REQUESTED
    )
    stage: Mapped[Word] = mapped_column(default="")
    directory: Mapped[LongText] = mapped_column(default="")
    digest: Mapped[Word] = mapped_column(default="")
    sentence: Mapped[LongText] = mapped_column(default="")
    finished_at: Mapped[datetime | None]
    claimed_by: Mapped[Name] = mapped_column(default="")
    claimed_until: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)
    delays: Mapped[int] = mapped_column(default=0)
    not_before: Mapped[datetime | None]
    told_state: Mapped[Word] = mapped_column(default="")
    external_run: Mapped[Name] = mapped_column(default="")


class ReleaseEventRow(Base):
    """One thing that happened in a release, in the order of `id`, which live pages resume from.

    `kind` is `state`, `stage`, `progress`, `finding` or `note`; `text` is for people, `data` for programs.
    """

    __tablename__ = "release_events"
    __table_args__ = (Index("ix_release_events_release_id_id", "release_id", "id"),)

    id: Mapped[Counted]
    release_id: Mapped[Number] = mapped_column(ForeignKey("releases.id"))
    at: Mapped[datetime]
    stage: Mapped[Word] = mapped_column(default="")
    kind: Mapped[Word]
    text: Mapped[LongText] = mapped_column(default="")
    data: Mapped[Document] = mapped_column(default=dict)


class VerdictRow(Base):
    """A verdict as the gates signed it. `digest` is the SHA-256 of its file, `report` the folder of its pages."""

    __tablename__ = "verdicts"
    __table_args__ = (
        Index("ix_verdicts_model_version", "model", "version"),
        Index("ix_verdicts_signed_at", "signed_at"),
    )

    id: Mapped[Counted]
    release_id: Mapped[int | None] = mapped_column(ForeignKey("releases.id"), index=True)
    model: Mapped[Name]
    version: Mapped[Number]
    digest: Mapped[Word] = mapped_column(unique=True)
    allowed: Mapped[bool]
    sentence: Mapped[LongText]
    document: Mapped[Document]
    signed_at: Mapped[datetime]
    key_id: Mapped[Word]
    report: Mapped[LongText] = mapped_column(default="")
