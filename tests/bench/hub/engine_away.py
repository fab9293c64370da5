"""An engine that is away for an hour: hubs go by the clock of their database, and that is set forward.

MINUTES in the environment makes it shorter, to try it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
from sqlalchemy import select
from tests.bench.hub.places import SAID, Place, place, since_said
from tests.bench.rows import Row
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.neighbours.postgresql import postgresql
from tests.support.release.world import available, engine

from tidegate_pipelines.hub.store import Database, ReleaseRow, ReleaseState

_MINUTES = int(os.environ.get("MINUTES", "60"))
_STEP = timedelta(minutes=3)
_CLOCK = """
CREATE TABLE ahead (seconds double precision);
INSERT INTO ahead VALUES (0);
CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  'SELECT pg_catalog.clock_timestamp() + seconds * interval ''1 second'' FROM ahead';
ALTER DATABASE postgres SET search_path = public, pg_catalog;
"""


def measure() -> Sequence[Row]:
    """Hub, engine and registry are real, and each try of the release too."""
    with place("a") as here, postgresql() as server, psycopg.connect(server.url, autocommit=True) as clock:
        clock.execute(_CLOCK)
        with here.hub("hub", more=f'database = "{server.url}"', poll_seconds=1) as hub:
            here.client.set_registered_model_alias("a", "candidate", "1")
            hub.over("a", 1)
            _end_engine(here, hub)
            ended = datetime.now(UTC)
            here.client.set_registered_model_alias("a", "candidate", "2")
            database = Database(server.url)
            tries = _let_an_hour_pass(database, clock)
            database.close()
            said = since_said(hub, "/engines", ended) and "AWAY" in _states(hub)
            with engine(here.world, here.endpoints.control) as endpoints:
                back = time.monotonic()
                released = hub.over("a", 2, 300)["state"] == "RELEASED"
                seconds = time.monotonic() - back
                serving = available(endpoints, "a")
    what = f"an engine away for {_MINUTES} minutes, tried {tries} times: the alias set meanwhile is released after"
    return [Row(what, seconds, "s", SAID, released and said and serving == [2])]


def _end_engine(here: Place, hub: HubProcess) -> None:
    os.kill(here.endpoints.pid, signal.SIGTERM)
    eventually(lambda: _states(hub) == ["AWAY"], 60)


def _states(hub: HubProcess) -> list[str]:
    return [one["state"] for one in hub.get("/engines")]


def _let_an_hour_pass(database: Database, clock: psycopg.Connection[tuple[float]]) -> int:
    """The database's clock goes forward whenever the release was tried once more; how often it was tried."""
    tries, ahead = 0, timedelta()
    while ahead < timedelta(minutes=_MINUTES):
        tries = eventually(partial(_tried_again, database, tries), 120)
        ahead += _STEP
        clock.execute("UPDATE ahead SET seconds = %s", (ahead.total_seconds(),))
    return tries


def _tried_again(database: Database, known: int) -> int:
    """How often the release was put off by now; 0 where that is not more often than is known."""
    with database.reading() as session:
        query = select(ReleaseRow.delays).where(ReleaseRow.version == 2, ReleaseRow.state == ReleaseState.REQUESTED)
        delays = session.scalar(query) or 0
    return delays if delays > known else 0
