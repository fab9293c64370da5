"""Uploads of labels, whose labels count all at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate_pipelines.hub.store.base import UtcTime

revision = "uploads"
down_revision = "latest"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds them; labels that are there belong to none."""
    op.create_table(
        "label_uploads",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("model", sa.String(255), nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("state", sa.String(64), nullable=False),
        sa.Column("seen_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_label_uploads"),
    )
    op.create_index("ix_label_uploads_state", "label_uploads", ["state"])
    op.add_column("labels", sa.Column("upload", sa.BigInteger(), nullable=True))
    op.create_index("ix_labels_upload", "labels", ["upload"])
