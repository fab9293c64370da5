"""The first tables, room by room."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate_pipelines.hub.store.base import Json, UtcTime

revision = "first"
down_revision = None
branch_labels = None
depends_on = None

NAME = sa.String(255)
WORD = sa.String(64)
COUNTED = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """All of them."""
    _models()
    _releases()
    _release_history()
    _registry()
    _engines()
    _traffic()
    _skew()


def _models() -> None:
    op.create_table(
        "models",
        sa.Column("name", NAME, nullable=False),
        sa.Column("team", NAME, nullable=False),
        sa.Column("first_seen", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_models"),
    )


def _releases() -> None:
    op.create_table(
        "releases",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("source", WORD, nullable=False),
        sa.Column("request_key", NAME, nullable=True),
        sa.Column("requested_by", NAME, nullable=False),
        sa.Column("requested_at", UtcTime(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("settings", Json, nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "REQUESTED",
                "WAITING",
                "RUNNING",
                "RELEASED",
                "REFUSED",
                "SUPERSEDED",
                "FAILED",
                "CANCELLED",
                name="releasestate",
                native_enum=False,
                length=16,
            ),
            nullable=False,
        ),
        sa.Column("stage", WORD, nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("digest", WORD, nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.Column("claimed_by", NAME, nullable=False),
        sa.Column("claimed_until", UtcTime(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("delays", sa.Integer(), nullable=False),
        sa.Column("not_before", UtcTime(), nullable=True),
        sa.Column("told_state", WORD, nullable=False),
        sa.Column("external_run", NAME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_releases"),
        sa.UniqueConstraint("request_key", name="uq_releases_request_key"),
    )
    op.create_index("ix_releases_model_requested_at", "releases", ["model", "requested_at"], unique=False)
    op.create_index("ix_releases_requested_at", "releases", ["requested_at"], unique=False)
    op.create_index("ix_releases_state_requested_at", "releases", ["state", "requested_at"], unique=False)
    op.create_index(
        "uq_releases_running_model",
        "releases",
        ["model"],
        unique=True,
        sqlite_where=sa.text("state = 'RUNNING'"),
        postgresql_where=sa.text("state = 'RUNNING'"),
    )


def _release_history() -> None:
    op.create_table(
        "release_events",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("release_id", sa.BigInteger(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("stage", WORD, nullable=False),
        sa.Column("kind", WORD, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("data", Json, nullable=False),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name="fk_release_events_release_id"),
        sa.PrimaryKeyConstraint("id", name="pk_release_events"),
    )
    op.create_index("ix_release_events_release_id_id", "release_events", ["release_id", "id"], unique=False)
    op.create_table(
        "verdicts",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("release_id", COUNTED, nullable=True),
        sa.Column("model", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("digest", WORD, nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("document", Json, nullable=False),
        sa.Column("signed_at", UtcTime(), nullable=False),
        sa.Column("key_id", WORD, nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name="fk_verdicts_release_id"),
        sa.PrimaryKeyConstraint("id", name="pk_verdicts"),
        sa.UniqueConstraint("digest", name="uq_verdicts_digest"),
    )
    op.create_index("ix_verdicts_model_version", "verdicts", ["model", "version"], unique=False)
    op.create_index("ix_verdicts_release_id", "verdicts", ["release_id"], unique=False)
    op.create_index("ix_verdicts_signed_at", "verdicts", ["signed_at"], unique=False)


def _registry() -> None:
    op.create_table(
        "registries",
        sa.Column("name", NAME, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("since", UtcTime(), nullable=False),
        sa.Column("last_seen", UtcTime(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_registries"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", NAME, nullable=False),
        sa.Column("received_at", UtcTime(), nullable=False),
        sa.Column("outcome", WORD, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_received_at", "deliveries", ["received_at"], unique=False)
    op.create_table(
        "registered_models",
        sa.Column("registry_name", NAME, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=True),
        sa.Column("registered_at", sa.BigInteger(), nullable=True),
        sa.Column("changed_at", UtcTime(), nullable=False),
        sa.Column("seen_at", UtcTime(), nullable=False),
        sa.Column("changes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("registry_name", "model", name="pk_registered_models"),
    )


def _engines() -> None:
    op.create_table(
        "engines",
        sa.Column("name", NAME, nullable=False),
        sa.Column("addresses", sa.Text(), nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("since", UtcTime(), nullable=False),
        sa.Column("last_seen", UtcTime(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("status", Json, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_engines"),
    )
    op.create_table(
        "served_versions",
        sa.Column("engine", NAME, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("ordinary", sa.Boolean(), nullable=False),
        sa.Column("since", UtcTime(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("engine", "model", "version", name="pk_served_versions"),
    )
    op.create_index("ix_served_versions_model", "served_versions", ["model"], unique=False)


def _traffic() -> None:
    op.create_table(
        "traffic",
        sa.Column("engine", NAME, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hour", UtcTime(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("p50", sa.Float(), nullable=True),
        sa.Column("p99", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("engine", "model", "version", "hour", name="pk_traffic"),
    )
    op.create_index("ix_traffic_model_hour", "traffic", ["model", "hour"], unique=False)


def _skew() -> None:
    op.create_table(
        "skew_windows",
        sa.Column("id", COUNTED, autoincrement=True, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("feature", NAME, nullable=False),
        sa.Column("window_start", UtcTime(), nullable=False),
        sa.Column("window_end", UtcTime(), nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("effect", sa.Float(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("shares", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_skew_windows"),
    )
    op.create_table(
        "feature_profiles",
        sa.Column("model", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("feature", NAME, nullable=False),
        sa.Column("document", Json, nullable=False),
        sa.PrimaryKeyConstraint("model", "version", "feature", name="pk_feature_profiles"),
    )
    op.create_index("ix_skew_windows_model_feature", "skew_windows", ["model", "feature", "window_end"], unique=False)
    op.create_index(
        "uq_skew_windows_window", "skew_windows", ["model", "window_end", "feature", "version"], unique=True
    )
