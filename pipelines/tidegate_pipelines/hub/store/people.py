"""What people did and decided: the audit log, sessions, decisions and labels."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from tidegate_pipelines.hub.store.base import MOST_NAME, Base, Counted, Document, LongText, Name, Number, Word


class AuditLineRow(Base):
    """One line of the audit log, as `hub.audit.line` has it; `detail` is JSON as text, so that its hash stays."""

    __tablename__ = "audit_lines"
    __table_args__ = (Index("ix_audit_lines_at_us", "at_us"), Index("ix_audit_lines_thing", "thing"))

    number: Mapped[Number] = mapped_column(primary_key=True, autoincrement=False)
    at_us: Mapped[Number]
    who: Mapped[LongText]
    action: Mapped[LongText]
    thing: Mapped[LongText]
    outcome: Mapped[Word]
    reason: Mapped[LongText]
    detail: Mapped[LongText]
    address: Mapped[LongText]
    engine: Mapped[LongText]
    before: Mapped[Word]
    hash: Mapped[Word]


class AuditHeadRow(Base):
    """One row: the newest line, which every writer takes first, and up to which line there is an export."""

    __tablename__ = "audit_head"

    id: Mapped[Number] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[Number]
    hash: Mapped[Word]
    exported: Mapped[Number]


class EngineEntryRow(Base):
    """An entry of an engine's journal that the audit log has already."""

    __tablename__ = "audit_engine_entries"

    engine: Mapped[Name] = mapped_column(primary_key=True)
    digest: Mapped[Word] = mapped_column(primary_key=True)
    at_us: Mapped[Number]


class SessionRow(Base):
    """Somebody who signed in. `id` is the SHA-256 of the cookie, `kind` says how (`local`, `token`, `oidc`), `subject`
    by what, and `groups` what the provider said of them; what they may do is looked up anew with each request."""

    __tablename__ = "sessions"
    __table_args__ = (Index("ix_sessions_expires_at", "expires_at"),)

    id: Mapped[Word] = mapped_column(primary_key=True)
    kind: Mapped[Word]
    name: Mapped[Name]
    subject: Mapped[LongText]
    groups: Mapped[Document]
    form_token: Mapped[Word]
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class PendingSignInRow(Base):
    """Somebody who was sent to the provider. `id` is the SHA-256 of the cookie that has to come back with `state`."""

    __tablename__ = "pending_sign_ins"

    id: Mapped[Word] = mapped_column(primary_key=True)
    state: Mapped[Word]
    nonce: Mapped[Word]
    verifier: Mapped[Name]
    return_to: Mapped[LongText]
    expires_at: Mapped[datetime]


class DecisionRow(Base):
    """What somebody decided about a model. `key` makes the same decision arrive once.

    `kind` is a word of `hub.decisions.kinds`; `until` and `ended_at` are for what lasts: freeze windows, mutes.
    """

    __tablename__ = "decisions"
    __table_args__ = (
        Index("ix_decisions_model_at", "model", "at"),
        Index("ix_decisions_kind_until", "kind", "until"),
    )

    id: Mapped[Counted]
    key: Mapped[str] = mapped_column(String(MOST_NAME), unique=True)
    kind: Mapped[Word]
    model: Mapped[Name]
    version: Mapped[Number | None]
    release_id: Mapped[Number | None] = mapped_column(index=True)
    feature: Mapped[Name] = mapped_column(default="")
    who: Mapped[Name]
    reason: Mapped[LongText]
    at: Mapped[datetime]
    since: Mapped[datetime | None]
    until: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    sentence: Mapped[LongText] = mapped_column(default="")
    detail: Mapped[Document] = mapped_column(default=dict)


class LabelRow(Base):
    """A label as it came: every one is kept, and of several for a request the newest `labelled_at` counts, then the
    last to arrive. `known` says whether the inference log had its request when it came. It counts once its upload does;
    those from before there were uploads have none, and count."""

    __tablename__ = "labels"
    __table_args__ = (
        Index("ix_labels_model_request_id", "model", "request_id"),
        Index("ix_labels_upload", "upload"),
    )

    id: Mapped[Counted]
    model: Mapped[Name]
    request_id: Mapped[Name]
    label: Mapped[LongText]
    labelled_at: Mapped[datetime]
    received_at: Mapped[datetime]
    who: Mapped[Name]
    known: Mapped[bool | None]
    upload: Mapped[Number | None]


class LabelUploadRow(Base):
    """A file of labels. `state` is `arriving` while it is written, last at `seen_at`; then `counts`, or `given-up`
    where nobody wrote on, and `removed` once its labels are."""

    __tablename__ = "label_uploads"
    __table_args__ = (Index("ix_label_uploads_state", "state"),)

    id: Mapped[Counted]
    model: Mapped[Name]
    who: Mapped[Name]
    state: Mapped[Word]
    seen_at: Mapped[datetime]


class AlertRow(Base):
    """Something that is wrong, or was. `key` tells it from others, `resolved_at` is None while it lasts; of one key one
    alert lasts at a time."""

    __tablename__ = "alerts"
    __table_args__ = (
        Index("ix_alerts_resolved_at", "resolved_at"),
        Index(
            "uq_alerts_open_key",
            "key",
            unique=True,
            sqlite_where=text("resolved_at IS NULL"),
            postgresql_where=text("resolved_at IS NULL"),
        ),
    )

    id: Mapped[Counted]
    key: Mapped[Name]
    model: Mapped[Name]
    severity: Mapped[Word]
    title: Mapped[LongText]
    body: Mapped[LongText]
    link: Mapped[LongText]
    since: Mapped[datetime]
    resolved_at: Mapped[datetime | None]


class AlertMessageRow(Base):
    """An alert, or its end, that a receiver is to hear of. Rows of one receiver and model that are due go out as one
    message. `state` is `waiting`, `sent` or `given-up`."""

    __tablename__ = "alert_messages"
    __table_args__ = (Index("ix_alert_messages_state_due_at", "state", "due_at"),)

    id: Mapped[Counted]
    alert_id: Mapped[Number]
    receiver: Mapped[Name]
    model: Mapped[Name]
    resolved: Mapped[bool]
    state: Mapped[Word]
    due_at: Mapped[datetime]
    claimed_until: Mapped[datetime | None]
    attempts: Mapped[int]
    problem: Mapped[LongText]
    created_at: Mapped[datetime]
