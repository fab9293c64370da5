"""What Alembic runs to bring the tables up to date, on the connection that the hub hands it."""

from __future__ import annotations

from alembic import context

from tidegate_pipelines.hub.store import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
