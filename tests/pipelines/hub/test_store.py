"""The store makes its tables itself, once, on SQLite and PostgreSQL, and keeps its word on time and transactions."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import IntegrityError, StatementError
from tests.support.neighbours.postgresql import PostgreSQL

from tidegate_pipelines.hub.decisions.labels import newest_labels
from tidegate_pipelines.hub.store import Base, Database, ReleaseRow, ReleaseState
from tidegate_pipelines.hub.store.database import migrations
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, Unavailable

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def a_release(model: str = "m", state: ReleaseState = ReleaseState.REQUESTED, key: str | None = None) -> ReleaseRow:
    return ReleaseRow(
        model=model, version=1, source="api", requested_by="anna", requested_at=NOON, state=state, request_key=key
    )


def test_the_migrations_make_what_the_tables_say(database: Database) -> None:
    with database.reading() as session:
        assert compare_metadata(MigrationContext.configure(session.connection()), Base.metadata) == []


def test_a_database_from_before_uploads_is_brought_up_to_date_with_its_labels(database_url: str) -> None:
    engine = create_engine(Database(database_url).url)
    with engine.begin() as connection:
        command.upgrade(migrations(connection), "latest")
        kept = "'flights', 'a', '1', '2026-05-01', '2026-05-01', 'anna'"
        names = "model, request_id, label, labelled_at, received_at, who"
        connection.execute(text(f"INSERT INTO labels ({names}) VALUES ({kept})"))
    engine.dispose()
    database = Database(database_url)
    database.migrate()
    assert list(newest_labels(database, "flights")) == [("a", 1)]
    database.close()


def test_hubs_that_start_at_once_make_the_tables_once(database_url: str) -> None:
    problems: list[Exception] = []

    def start() -> None:
        try:
            database = Database(database_url)
            database.migrate()
            database.close()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_database_of_a_newer_tidegate_is_refused_by_name(database: Database) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = 'later'"))
    with pytest.raises(FailedPrecondition, match="made by another Tidegate"):
        database.migrate()


def test_moments_come_back_in_utc_and_need_a_zone(database: Database) -> None:
    with database.writing() as session:
        row = a_release()
        row.requested_at = datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
        session.add(row)
    with database.reading() as session:
        found = session.scalars(select(ReleaseRow)).one()
        assert (found.requested_at, found.requested_at.tzinfo) == (NOON, UTC)
        assert session.scalars(select(ReleaseRow).where(ReleaseRow.requested_at >= NOON)).all() == [found]
    row = a_release()
    row.requested_at = datetime(2026, 5, 1)
    with pytest.raises(StatementError, match="no time zone"), database.writing() as session:
        session.add(row)


def test_two_winners_of_one_model_cannot_be_written(database: Database) -> None:
    with database.writing() as session:
        session.add_all([a_release("m", ReleaseState.RUNNING), a_release("n", ReleaseState.RUNNING), a_release("m")])
    with pytest.raises(IntegrityError), database.writing() as session:
        session.add(a_release("m", ReleaseState.RUNNING))


def test_what_raises_leaves_nothing_behind(database: Database) -> None:
    with contextlib.suppress(KeyError), database.writing() as session:
        session.add(a_release())
        session.flush()
        raise KeyError
    with database.reading() as session:
        assert session.scalars(select(ReleaseRow)).all() == []


@pytest.mark.parametrize("value", [{"version": 2**63}, {"reason": "\ud800"}, {"requested_by": "a" * 9 + "\ud800"}])
def test_what_no_database_keeps_is_bad_input(database: Database, value: dict[str, Any]) -> None:
    release = a_release()
    for name, kept in value.items():
        setattr(release, name, kept)
    with pytest.raises(InvalidInput, match="send whole numbers below"), database.writing() as session:
        session.add(release)
    with pytest.raises(InvalidInput, match="send whole numbers below"), database.reading() as session:
        session.scalar(select(ReleaseRow).where(ReleaseRow.id == 2**70))


def test_readers_do_not_wait_for_a_writer(database: Database) -> None:
    with database.writing() as session:
        session.add(a_release())
        session.flush()
        with database.reading() as other:
            assert other.scalars(select(ReleaseRow)).all() == []


def test_a_database_that_is_away_is_named_without_its_password() -> None:
    database = Database("postgresql://hub:hush@127.0.0.1:1/hub")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1/hub has not answered since 2") as raised:
        database.migrate()
    assert "hush" not in raised.value.message


def test_a_full_disk_is_told_with_its_cure(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'hub.db'}")
    told = r"hub\.db cannot be used \(database or disk is full\): free space there"

    def fill() -> None:
        with database.writing() as session:
            session.execute(text("PRAGMA max_page_count = 1"))
            session.execute(text("CREATE TABLE large AS SELECT zeroblob(1000000)"))

    with pytest.raises(Unavailable, match=told):
        fill()
    database.close()


@pytest.mark.parametrize("url", ["mysql://there/hub", "hub.db"])
def test_what_is_no_database_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///FILE"):
        Database(url)


def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="unable to open"):
        Database(f"sqlite:///{tmp_path}/none/hub.db").migrate()


def test_a_connection_is_lost_where_the_servers_machine_is_not_heard_of(postgresql_server: PostgreSQL) -> None:
    database = Database(postgresql_server.database("postgres"))
    with database.reading() as session:
        connection: Any = session.connection().connection.dbapi_connection
        with socket.socket(fileno=os.dup(connection.fileno())) as wire:
            told = wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            idle, between, times = (
                wire.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    database.close()
    assert told == 20_000
    assert idle + between * times <= 20
