"""Two hubs on one PostgreSQL, killed one after the other while they release: what is lost, what done twice."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from tests.bench.rows import Row
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.neighbours.postgresql import postgresql
from tests.support.release.world import HONEST, World, available, engine, make_world

from tidegate_pipelines.hub.store import FINAL, Database, ReleaseEventRow, ReleaseRow, ReleaseState

MODELS = 10
RELEASES = int(os.environ.get("RELEASES", "100"))
KILLS = int(os.environ.get("KILLS", "50"))
_ROUNDS = max(1, RELEASES // MODELS)
_SECONDS = 1200.0


def measure() -> Sequence[Row]:
    """All releases are asked for, round by round; a hub and, every other time, its workers are killed in between."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-hubs-") as name, postgresql() as server:
        world = make_world(Path(name))
        with engine(world) as endpoints:
            more = f'database = "{server.url}"\n[run]\nlease_seconds = 10\nattempts = 1000\n'
            hubs = [
                HubProcess(Path(name) / f"hub{number}", _config(world, endpoints.control, more)) for number in (1, 2)
            ]
            database = Database(server.url)
            for hub in hubs:
                hub.start()
            try:
                began = time.monotonic()
                kills, last = _release_and_kill(world, hubs, database)
                seconds = time.monotonic() - began
                serving = [available(endpoints, _name(number)) for number in range(MODELS)]
            finally:
                for hub in hubs:
                    hub.stop()
            rows = _rows(database, serving, kills, last, seconds)
            database.close()
            return rows


def _config(world: World, control: str, more: str) -> str:
    return f"""
watch_seconds = 2
{more}
[engines.one]
control = "{control}"
[releases]
held_out = "{world.held_out}"
private_key = "{world.private_key}"
repository = "{world.repository}"
policy = "{world.policy("skew")}"
canary = false
"""


def _name(number: int) -> str:
    return f"killed{number}"


def _release_and_kill(world: World, hubs: list[HubProcess], database: Database) -> tuple[int, int]:
    """How often a hub was killed, and how many versions of each model were released: as many as were asked for, and
    more where releases were over before enough kills had found something to disturb."""
    kills = version = 0
    while version < _ROUNDS or (kills < KILLS and version < 3 * _ROUNDS):
        version += 1
        for number in range(MODELS):
            world.publish(version, HONEST, name=_name(number))
            asked = {"model": _name(number), "version": version}
            answer = hubs[number % 2].post("/releases", asked)
            assert answer.status_code == 201, answer.text
        due = min(KILLS, KILLS * version // _ROUNDS)
        while kills < due:
            _await_progress(database)
            if _all_over(database):
                break
            _kill(hubs[kills % 2], workers=kills % 4 > 1)
            kills += 1
        eventually(lambda: _all_over(database), _SECONDS)
    return kills, version


def _await_progress(database: Database) -> None:
    """Something more has happened in a release."""

    def happened() -> int:
        with database.reading() as session:
            return session.scalar(select(func.count(ReleaseEventRow.id))) or 0

    before = happened()
    eventually(lambda: happened() > before or _all_over(database), _SECONDS)


def _kill(hub: HubProcess, workers: bool) -> None:
    assert hub.process is not None
    children = _children(hub.process.pid) if workers else []
    hub.kill()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    hub.start()


def _children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(pid) for path in tasks for pid in path.read_text().split()]


def _all_over(database: Database) -> bool:
    with database.reading() as session:
        return session.scalars(select(ReleaseRow.id).where(ReleaseRow.state.not_in(FINAL))).first() is None


def _rows(database: Database, serving: list[list[int]], kills: int, last: int, seconds: float) -> list[Row]:
    with database.reading() as session:
        releases = session.scalars(select(ReleaseRow)).all()
        events = session.scalars(select(ReleaseEventRow).order_by(ReleaseEventRow.id)).all()
    states = Counter(one.state for one in releases)
    released = states[ReleaseState.RELEASED]
    ends = Counter(one.release_id for one in events if one.data.get("state") in {state.value for state in FINAL})
    twice = sum(count != 1 for count in ends.values())
    overlaps = _overlaps({one.id: one.model for one in releases}, events)
    asked = last * MODELS
    right = sum(versions != [last] for versions in serving)
    return [
        Row("hubs killed during the releases", kills, "kills", f"{KILLS}", kills >= KILLS),
        Row(
            "releases of two hubs that are killed: released",
            released,
            f"of {asked}",
            "all",
            released == asked,
        ),
        Row("done twice", twice, "releases", "none", twice == 0),
        Row("begun while another of the model ran", overlaps, "releases", "none", overlaps == 0),
        Row("models that do not serve their last version", right, "models", "none", right == 0),
        Row("all of it took", seconds, "s", "-", None),
    ]


def _overlaps(models: dict[int, str], events: Sequence[Any]) -> int:
    running: dict[str, int] = {}
    found = 0
    for event in events:
        state, model = event.data.get("state"), models[event.release_id]
        if state == "RUNNING":
            found += running.get(model, event.release_id) != event.release_id
            running[model] = event.release_id
        elif state is not None and running.get(model) == event.release_id:
            del running[model]
    return found
