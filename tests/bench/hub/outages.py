"""What a backup of the database alone brings back, and what an outage of database or registry costs.

OUTAGE_SECONDS in the environment makes outages shorter, to try them.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tests.bench.hub.places import SAID, Place, place, since_said
from tests.bench.rows import Row
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.neighbours.between import Between, stand_between
from tests.support.neighbours.postgresql import postgresql
from tests.support.release.world import available

_OUTAGE_SECONDS = float(os.environ.get("OUTAGE_SECONDS", "60"))
_KNOWN = "history, engines and releases as before, nothing released again"


def measure() -> Sequence[Row]:
    """All of them, in the same place."""
    with place("a", "b", "c", "d", "e") as here:
        return [*_restored(here), *_database_away(here), *_registry_faulty(here), *_registry_slow(here)]


def _restored(here: Place) -> Sequence[Row]:
    """The hub's folder is lost, and its database comes back as it was before the newest release."""
    with here.hub("first", poll_seconds=1) as hub:
        here.client.set_registered_model_alias("a", "candidate", "1")
        first = hub.over("a", 1)
        hub.stop()
        backup = here.folder / "hub.db"
        shutil.copy(here.folder / "first/hub/hub.db", backup)
        hub.start()
        here.client.set_registered_model_alias("a", "candidate", "2")
        hub.over("a", 2)
    (here.folder / "second/hub").mkdir(parents=True)
    shutil.copy(backup, here.folder / "second/hub/hub.db")
    with here.hub("second", poll_seconds=1) as hub:
        again = hub.over("a", 2)
        events = [one["text"] for one in hub.get(f"/releases/{again['id']}/events") if one["kind"] == "stage"]
        eventually(lambda: [one["state"] for one in hub.get("/engines")] == ["UP"], 120)
        whole = hub.get(f"/releases/{first['id']}") == first and events == []
    whole = whole and available(here.endpoints, "a") == [2]
    return [Row("a hub restored from its database alone", float(whole), "1 is yes", _KNOWN, whole)]


def _database_away(here: Place) -> Sequence[Row]:
    with postgresql() as server:
        more = f'database = "{server.url}"'
        with here.hub("third", more=more, poll_seconds=1) as hub:
            here.client.set_registered_model_alias("b", "candidate", "1")
            hub.over("b", 1)
            began = datetime.now(UTC)
            server.stop()
            here.client.set_registered_model_alias("b", "candidate", "2")
            threading.Event().wait(_OUTAGE_SECONDS)
            said = all(since_said(hub, path, began, 503) for path in ("/", "/models", "/api/v1/releases"))
            server.start()
            back = time.monotonic()
            holds = hub.over("b", 2)["state"] == "RELEASED" and said
            seconds = time.monotonic() - back
    what = f"the database away for {_OUTAGE_SECONDS:g} s: the alias set meanwhile is released after"
    return [Row(what, seconds, "s", SAID, holds)]


def _registry_faulty(here: Place) -> Sequence[Row]:
    """First to one whose release has begun, then to everybody."""
    with stand_between(here.registry) as between:
        between.faulty = ("/api/2.0/mlflow/model-versions",)
        with here.hub("fourth", address=between.url, poll_seconds=1) as hub:
            here.client.set_registered_model_alias("c", "candidate", "1")
            eventually(lambda: (found := hub.release("c", 1)) and found["stage"] == "fetch", 120)
            seconds, holds = _away(here, hub, between, lambda: setattr(between, "faulty", ("/",)), "d")
            holds = holds and hub.over("c", 1, 300)["state"] == "RELEASED"
    what = f"MLflow answers 500 for {_OUTAGE_SECONDS:g} s: the alias set meanwhile is released after"
    return [Row(what, seconds, "s", SAID, holds)]


def _registry_slow(here: Place) -> Sequence[Row]:
    with (
        stand_between(here.registry) as between,
        here.hub("fifth", address=between.url, poll_seconds=1, timeout_seconds=2) as hub,
    ):
        eventually(lambda: [one["state"] for one in hub.get("/registries")] == ["UP"], 120)
        seconds, holds = _away(here, hub, between, lambda: setattr(between, "slow", True), "e")
    what = f"MLflow answers too slowly for {_OUTAGE_SECONDS:g} s: the alias set meanwhile is released after"
    return [Row(what, seconds, "s", SAID, holds)]


def _away(here: Place, hub: HubProcess, between: Between, breaks: Callable[[], None], model: str) -> tuple[float, bool]:
    """How long after the registry is back an alias that was set meanwhile is released, and whether all was well."""
    began = datetime.now(UTC)
    breaks()
    here.client.set_registered_model_alias(model, "candidate", "1")
    threading.Event().wait(_OUTAGE_SECONDS)
    said = since_said(hub, "/engines", began)
    nothing = hub.release(model, 1) is None
    between.recover()
    back = time.monotonic()
    released = hub.over(model, 1)["state"] == "RELEASED"
    return time.monotonic() - back, said and nothing and released
