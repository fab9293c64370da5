"""Of each model its last release, its latest window, and which version the registry was told serves; and how long
answers took in each hour."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate_pipelines.hub.store.base import Json

revision = "latest"
down_revision = "people"
branch_labels = None
depends_on = None

_RELEASE = "SELECT max(id) FROM releases WHERE releases.model = models.name"
_WINDOW = (
    "SELECT id FROM skew_windows WHERE skew_windows.model = models.name AND feature = '' "
    "ORDER BY window_end DESC, version DESC LIMIT 1"
)


def upgrade() -> None:
    """Adds them, and fills in what is known."""
    op.add_column("models", sa.Column("last_release", sa.BigInteger(), nullable=True))
    op.add_column("models", sa.Column("last_window", sa.BigInteger(), nullable=True))
    op.add_column("traffic", sa.Column("latency", Json, nullable=True))
    op.add_column("registered_models", sa.Column("told_serving", sa.BigInteger(), nullable=True))
    op.execute(f"UPDATE models SET last_release = ({_RELEASE}), last_window = ({_WINDOW})")
