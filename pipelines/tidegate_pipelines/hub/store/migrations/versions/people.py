"""What people did and decided, and what was told about it: audit log, sessions, decisions, labels, alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate_pipelines.hub.store.base import Json, UtcTime

revision = "people"
down_revision = "first"
branch_labels = None
depends_on = None

NAME = sa.String(255)
WORD = sa.String(64)
COUNTED = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """All of them."""
    _audit()
    _sign_ins()
    _decisions()
    _alerts()


def _audit() -> None:
    op.create_table(
        "audit_engine_entries",
        sa.Column("engine", NAME, nullable=False),
        sa.Column("digest", WORD, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("engine", "digest", name="pk_audit_engine_entries"),
    )
    op.create_table(
        "audit_head",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", WORD, nullable=False),
        sa.Column("exported", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_head"),
    )
    op.create_table(
        "audit_lines",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("thing", sa.Text(), nullable=False),
        sa.Column("outcome", WORD, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("before", WORD, nullable=False),
        sa.Column("hash", WORD, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit_lines"),
    )
    op.create_index("ix_audit_lines_at_us", "audit_lines", ["at_us"], unique=False)
    op.create_index("ix_audit_lines_thing", "audit_lines", ["thing"], unique=False)


def _sign_ins() -> None:
    op.create_table(
        "pending_sign_ins",
        sa.Column("id", WORD, nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("nonce", WORD, nullable=False),
        sa.Column("verifier", NAME, nullable=False),
        sa.Column("return_to", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pending_sign_ins"),
    )
    op.create_table(
        "sessions",
        sa.Column("id", WORD, nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("groups", Json, nullable=False),
        sa.Column("form_token", WORD, nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("seen_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"], unique=False)


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=True),
        sa.Column("release_id", sa.BigInteger(), nullable=True),
        sa.Column("feature", NAME, nullable=False),
        sa.Column("who", NAME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("since", UtcTime(), nullable=True),
        sa.Column("until", UtcTime(), nullable=True),
        sa.Column("ended_at", UtcTime(), nullable=True),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("detail", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        sa.UniqueConstraint("key", name="uq_decisions_key"),
    )
    op.create_index("ix_decisions_kind_until", "decisions", ["kind", "until"], unique=False)
    op.create_index("ix_decisions_model_at", "decisions", ["model", "at"], unique=False)
    op.create_index("ix_decisions_release_id", "decisions", ["release_id"], unique=False)
    op.create_table(
        "labels",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("request_id", NAME, nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("labelled_at", UtcTime(), nullable=False),
        sa.Column("received_at", UtcTime(), nullable=False),
        sa.Column("who", NAME, nullable=False),
        sa.Column("known", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_labels"),
    )
    op.create_index("ix_labels_model_request_id", "labels", ["model", "request_id"], unique=False)


def _alerts() -> None:
    op.create_table(
        "alert_messages",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("alert_id", sa.BigInteger(), nullable=False),
        sa.Column("receiver", NAME, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("resolved", sa.Boolean(), nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("due_at", UtcTime(), nullable=False),
        sa.Column("claimed_until", UtcTime(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_messages"),
    )
    op.create_index("ix_alert_messages_state_due_at", "alert_messages", ["state", "due_at"], unique=False)
    op.create_table(
        "alerts",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("severity", WORD, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.Column("since", UtcTime(), nullable=False),
        sa.Column("resolved_at", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
    )
    op.create_index("ix_alerts_resolved_at", "alerts", ["resolved_at"], unique=False)
    op.create_index(
        "uq_alerts_open_key",
        "alerts",
        ["key"],
        unique=True,
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )
