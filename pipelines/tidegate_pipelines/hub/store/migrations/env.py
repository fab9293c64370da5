"""What Alembic runs to bring the tables up to date, on the connection that the hub hands it."""

from __future__ import annotations

from alembic import context
from sqlalchemy import inspect, text

from tidegate_pipelines.hub.store import Base

connection = context.config.attributes["connection"]
if inspect(connection).has_table("alembic_version"):
    # This step once bore a name that Alembic reads as that of the newest step, so that none could come after it.
    connection.execute(text("UPDATE alembic_version SET version_num = 'latest' WHERE version_num = 'heads'"))
context.configure(connection=connection, target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
