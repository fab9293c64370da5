"""What a backup of the database alone brings back, and what an outage of database, registry or engine costs."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from tests.bench.hub.places import Place, place
from tests.bench.rows import Row
from tests.support.eventually import eventually
from tests.support.hub_process import HubProcess
from tests.support.postgresql import postgresql
from tests.support.releases import available

_OUTAGE_SECONDS = 10.0
_KNOWN = "history, engines and releases as before, nothing released again"


def measure() -> Sequence[Row]:
    """Both."""
    with place("a", "b", "c", "d") as here:
        return [*_restored(here), *_database_away(here), *_registry_faulty(here)]


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
        eventually(lambda: [one["state"] for one in hub.get("/engines")] == ["UP"])
        whole = hub.get(f"/releases/{first['id']}") == first and events == []
    whole = whole and available(here.endpoints, "a") == [2]
    return [Row("a hub restored from its database alone", float(whole), "1 is yes", _KNOWN, whole)]


def _database_away(here: Place) -> Sequence[Row]:
    with postgresql() as server:
        more = f'database = "{server.url}"'
        with here.hub("third", more=more, poll_seconds=1) as hub:
            here.client.set_registered_model_alias("b", "candidate", "1")
            hub.over("b", 1)
            server.stop()
            answer = httpx.get(f"{hub.url}/api/v1/releases", timeout=60, trust_env=False)
            said = answer.status_code == 503 and "database" in answer.json()["error"]["message"]
            here.client.set_registered_model_alias("b", "candidate", "2")
            threading.Event().wait(_OUTAGE_SECONDS)
            server.start()
            began = time.monotonic()
            holds = hub.over("b", 2)["state"] == "RELEASED" and said
            seconds = time.monotonic() - began
    what = f"the database away for {_OUTAGE_SECONDS:g} s: the alias set meanwhile is released after"
    return [Row(what, seconds, "s", "said meanwhile, then by itself", holds)]


def _registry_faulty(here: Place) -> Sequence[Row]:
    """Something stands before the registry that answers 500, then hands everything on."""
    faulty = threading.Event()
    faulty.set()

    class Handler(BaseHTTPRequestHandler):
        def _hand_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if faulty.is_set():
                self.send_response(500)
                self.end_headers()
                return
            headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
            url = f"{here.registry}{self.path}"
            answer = httpx.request(self.command, url, content=body, headers=headers, timeout=60, trust_env=False)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
            self.end_headers()
            self.wfile.write(answer.content)

        def do_GET(self) -> None:
            self._hand_on()

        def do_POST(self) -> None:
            self._hand_on()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        here.client.set_registered_model_alias("c", "candidate", "1")
        with here.hub("fourth", address=f"http://127.0.0.1:{server.server_address[1]}", poll_seconds=1) as hub:
            return [_recovers(hub, faulty)]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _recovers(hub: HubProcess, faulty: threading.Event) -> Row:
    eventually(lambda: [one["state"] for one in hub.get("/registries")] == ["AWAY"])
    faulty.clear()
    began = time.monotonic()
    holds = hub.over("c", 1)["state"] == "RELEASED"
    what = "MLflow answers 500, then not: the alias set meanwhile is released after"
    return Row(what, time.monotonic() - began, "s", "away is shown, then by itself", holds)
