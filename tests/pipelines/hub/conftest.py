"""Databases for the hub's tests: a new SQLite file, and a new database in one real PostgreSQL server.

Tables are made once of either kind and copied: making them takes longer than most tests.
"""

from __future__ import annotations

import itertools
import shutil
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
    """A database of either kind: empty, but for tests that take `database`, too."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/hub.db"
    server: PostgreSQL = request.getfixturevalue("postgresql_server")
    empty = "database" not in request.fixturenames
    return server.new_database(f"hub{next(_NUMBERS)}", "template1" if empty else request.getfixturevalue("tables"))


@pytest.fixture(scope="session")
def tables(postgresql_server: PostgreSQL) -> str:
    """The name of a database in PostgreSQL with all tables and nobody in it."""
    _migrate(postgresql_server.new_database("tables"))
    return "tables"


@pytest.fixture(scope="session")
def tables_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of SQLite's with all tables."""
    path = tmp_path_factory.mktemp("tables") / "hub.db"
    _migrate(f"sqlite:///{path}")
    return path


def _migrate(url: str) -> None:
    database = Database(url)
    database.migrate()
    database.close()


@pytest.fixture
def database(database_url: str, tables_file: Path) -> Iterator[Database]:
    """The same with all tables in it."""
    database = Database(database_url)
    if not database.is_postgresql:
        shutil.copy(tables_file, str(database.url.database))
    yield database
    database.close()
