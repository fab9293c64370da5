"""The hub's database: sessions that read, sessions that write, and tables brought up to date under a lock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.store.base import Base
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, Unavailable

if TYPE_CHECKING:
    from alembic.config import Config

_SQLITE, _POSTGRESQL = "sqlite", "postgresql"
_WRITES = "tidegate_writes"
_LAST = "tidegate_last"
_CURES = {
    sqlite3.SQLITE_FULL: "free space there",
    sqlite3.SQLITE_READONLY: "let the hub write to the file and its folder",
    sqlite3.SQLITE_IOERR: "free space there, or mend the disk",
    sqlite3.SQLITE_CANTOPEN: "let the hub open files in its folder",
}
_BUSY_SECONDS = 30
_CONNECT_SECONDS = 5
_LOST_SECONDS = 20
"""A connection of which nothing was heard for so long, though it was asked, is lost: its machine may be gone."""
_POOL = 10
MOST_AT_ONCE = 2 * _POOL
"""Connections for whoever reads and writes; another one waits until one of them is free."""
_MIGRATION_LOCK = 8600_01
_EVENT_LOCK = 8600_02


class Database:
    """One database by its URL: `sqlite:///FILE`, or `postgresql://USER@HOST/NAME`, whose password may lie in a file
    that libpq knows (PGPASSFILE). Safe to share between threads.

    Every error that the database's absence causes is Unavailable; it names it without its password, and says since when
    it has not answered. A value that it cannot keep is InvalidInput.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError as error:
            raise InvalidInput("the database is no URL: write sqlite:///FILE or postgresql://USER@HOST/NAME") from error
        kind = parsed.get_backend_name()
        if kind not in (_SQLITE, _POSTGRESQL):
            raise InvalidInput(f"the database is of kind {kind!r}: use sqlite:///FILE or postgresql://USER@HOST/NAME")
        self.url = parsed.set(drivername=f"{_POSTGRESQL}+psycopg") if kind == _POSTGRESQL else parsed
        self.is_postgresql = kind == _POSTGRESQL
        self._engine = self._connect(pool_size=_POOL, max_overflow=MOST_AT_ONCE - _POOL)
        self._spare = self._connect(pool_size=1, max_overflow=0)
        self._away_since: datetime | None = None
        self._closed = False

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent look at the tables; what is changed in it is thrown away."""
        with self._errors(), Session(self._engine, expire_on_commit=False) as session:
            yield session

    def require_answer(self) -> None:
        """Unavailable where the database does not answer; over a connection that nothing else takes."""
        with self._errors(), self._spare.connect() as connection:
            connection.execute(text("SELECT 1"))

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """One transaction: all of it or, where something raises, nothing. SQLite lets one writer in at a time, so
        nothing read in here can change before it is written."""
        engine = self._engine.execution_options(**{_WRITES: True})
        with self._errors(), Session(engine, expire_on_commit=False) as session, session.begin():
            yield session
            if events := session.info.pop(_LAST, []):
                session.flush()
                self._let_nobody_before(session)
                session.add_all(events)

    def now(self, session: Session) -> datetime:
        """This moment by the database's clock, which all hubs on it share."""
        if not self.is_postgresql:
            return datetime.now(UTC)
        found = session.scalar(select(func.clock_timestamp()))
        assert isinstance(found, datetime)
        return found.astimezone(UTC)

    def _let_nobody_before(self, session: Session) -> None:
        """No other transaction adds events before this one ends, so that a reader who saw one event missed none before
        it: PostgreSQL counts when a row is written, not when it can be seen."""
        if self.is_postgresql:
            session.execute(text(f"SELECT pg_advisory_xact_lock({_EVENT_LOCK})"))

    def migrate(self) -> None:
        """Makes the tables, or brings them up to date; of several hubs that start at once one does it.

        FailedPrecondition for a database that a newer Tidegate has made.
        """
        from alembic import command
        from alembic.util import CommandError

        engine = self._engine.execution_options(**{_WRITES: True})
        with self._errors(), engine.begin() as connection:
            if self.is_postgresql:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
            try:
                command.upgrade(migrations(connection), "head")
            except CommandError as error:
                raise FailedPrecondition(
                    f"the hub's database {self} was made by another Tidegate ({error}): run that one, or a newer one"
                ) from error

    def close(self) -> None:
        """Closes all connections. What goes on in other threads ends with its present transaction: the next one is
        Unavailable."""
        self._closed = True
        self._engine.dispose()
        self._spare.dispose()

    def _connect(self, **pool: int) -> Engine:
        options: dict[str, Any] = dict(pool)
        if self.is_postgresql:
            # Days are those of UTC, whatever zone the server has; texts are texts, also of a database in SQL_ASCII.
            arguments = {
                "connect_timeout": _CONNECT_SECONDS,
                "options": "-c TimeZone=UTC",
                "client_encoding": "utf8",
                "keepalives_idle": _LOST_SECONDS // 2,
                "keepalives_interval": _LOST_SECONDS // 4,
                "keepalives_count": 2,
                "tcp_user_timeout": 1000 * _LOST_SECONDS,
            }
            options |= {"pool_pre_ping": True, "connect_args": arguments}
        else:
            options |= {"connect_args": {"timeout": _BUSY_SECONDS, "check_same_thread": False}}
        try:
            engine = create_engine(self.url, **options)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise InvalidInput(f"the database {self} needs a driver ({error}): install tidegate[hub]") from error
        if not self.is_postgresql:
            event.listen(engine, "connect", _open_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        return engine

    @contextmanager
    def _errors(self) -> Iterator[None]:
        if self._closed:
            raise Unavailable("the hub stops: send this again once it is back, or to another hub")
        try:
            yield
            self._away_since = None
        except (OperationalError, InterfaceError) as error:
            raise Unavailable(self._away(error)) from error
        except (DataError, OverflowError, UnicodeEncodeError) as error:
            raise InvalidInput(
                "a number or text is beyond what the hub's database keeps: send whole numbers below 2^63, and texts of "
                "whole characters without NUL"
            ) from error
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            raise Unavailable(self._away(error)) from error

    def _away(self, error: DBAPIError) -> str:
        lines = str(error.orig).strip().splitlines()
        said = lines[0] if lines else type(error.orig).__name__
        if (cure := _CURES.get(getattr(error.orig, "sqlite_errorcode", 0) & 0xFF)) is not None:
            return f"the hub's database {self} cannot be used ({said}): {cure}, then the hub goes on by itself"
        since = self._away_since = self._away_since or datetime.now(UTC)
        return (
            f"the hub's database {self} has not answered since {since:%Y-%m-%d %H:%M:%S} UTC ({said}): "
            "once it does, the hub goes on by itself"
        )


def write_last(session: Session, row: Base) -> None:
    """Writes a row at the end of the transaction, when nothing else has to be waited for."""
    session.info.setdefault(_LAST, []).append(row)


def migrations(connection: Connection) -> Config:
    """What Alembic has to know to work on one connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _open_sqlite(connection: Any, _: Any) -> None:
    # The driver's own handling of transactions commits at odd moments; `_begin_sqlite` says BEGIN itself.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
