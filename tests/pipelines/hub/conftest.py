"""Databases for the hub's tests: a new SQLite file, and a new database in one real PostgreSQL server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.neighbours.postgresql import PostgreSQL, postgresql

from tidegate_pipelines.hub.store import Database

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQL]:
    """One server for the whole session; take a database of your own."""
    with postgresql() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/hub.db"
    server: PostgreSQL = request.getfixturevalue("postgresql_server")
    return server.new_database(f"hub{next(_NUMBERS)}")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The same with all tables in it."""
    database = Database(database_url)
    database.migrate()
    yield database
    database.close()
