"""The demo's hub: `tidegate hub` as a process of its own, told of what Airflow ran, and looked at as people look at it.

It watches the engine by itself. Releases and skew reports are sent to it; in the end its pages are asked for, and have
to show them.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tidegate_flights.airflow_runner import DagResult
from tidegate_flights.features import LABEL, SERVABLE
from tidegate_flights.folders import Folders
from tidegate_flights.process import kill, stop, wait_for_ready_file
from tidegate_serving.contract.errors import Unavailable

_STAGES = {"validate": "validate", "serve": "push", "canary": "canary", "promote": "promote"}
"""The hub's names for the DAG's tasks."""
ADDRESS = "http://127.0.0.1:8600"
"""Where a hub listens that is started again from the demo's folder: the hub's usual address."""
_READY_SECONDS = 90.0
_ANSWER_SECONDS = 30.0
_PAGE = {"accept": "text/html"}


@dataclass(frozen=True)
class Shown:
    """What the hub's pages have to show: a path, and texts that must stand there."""

    path: str
    texts: tuple[str, ...]


class HubProcess:
    """One hub with its configuration, database and output in the demo's folder."""

    def __init__(self, folders: Folders, control: str) -> None:
        self._folders, self._control = folders, control
        self._process: subprocess.Popen[bytes] | None = None
        self._client: httpx.Client | None = None
        self._releases: list[tuple[int, int]] = []

    @property
    def output(self) -> Path:
        """What the hub prints."""
        return self._folders.hub / "hub.txt"

    @property
    def address(self) -> str:
        """Where its pages are, once it is ready; waits for that."""
        return str(self._http().base_url).rstrip("/")

    def start(self) -> None:
        """Starts the process without waiting for it, so that its start can overlap other work."""
        self._folders.hub.mkdir(parents=True, exist_ok=True)
        self._folders.hub_config.write_text(self._settings())
        command = [sys.executable, "-m", "tidegate_pipelines.cli", "hub", "--config", str(self._folders.hub_config)]
        command += ["--address", "127.0.0.1:0", "--ready-file", str(self._ready)]
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "MLFLOW_"))}
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=mine
            )

    def released(self, version: int, begun: datetime, result: DagResult) -> None:
        """Tells it of a release that Airflow ran."""
        told = {
            "model": SERVABLE,
            "version": version,
            "succeeded": result.ok,
            "begun": begun.isoformat(),
            "ended": datetime.now(UTC).isoformat(),
            "key": f"flights_release-{version}",
            "run": f"DAG flights_release, version {version}",
            "sentence": result.reason or "",
            "stages": [
                {"name": _STAGES[task], "at": at.isoformat()} for task, at in result.begun.items() if task in _STAGES
            ],
        }
        self._releases.append((int(self._post("/releases/elsewhere", told)["id"]), version))

    def skewed(self, report: Mapping[str, Any], since: datetime, until: datetime) -> None:
        """Tells it of a skew report over what arrived between the two moments: the flights are of 2013, and were sent
        just now."""
        self._post("/skew", {**report, "since": since.isoformat(), "until": until.isoformat()})

    def problems(self, pages: Sequence[Shown]) -> list[str]:
        """Asks for each page as a browser does; one sentence for each text that none shows."""
        found = []
        for page in pages:
            answer = self._http().get(page.path, headers=_PAGE)
            if answer.status_code != httpx.codes.OK:
                found.append(f"the hub's page {page.path} answers {answer.status_code}: see {self.output}")
                continue
            text = as_text(answer.text)
            found += [
                f"the hub's page {page.path} does not show {one!r}"
                for one in page.texts
                if one.replace("`", "") not in text
            ]
        return found

    def pages(self, sentences: Mapping[int, str], column: str) -> list[Shown]:
        """Every page of the demo's history. `sentences` is what a gate said of each version that it refused."""
        of_each = [
            Shown(f"/releases/{number}", (sentences[version],) if version in sentences else ("released",))
            for number, version in self._releases
        ]
        versions = tuple(f"{SERVABLE}:{version}" for _, version in self._releases)
        return [
            Shown("/", (SERVABLE,)),
            Shown("/models", (SERVABLE,)),
            Shown(f"/models/{SERVABLE}", (column, "answers ordinary clients")),
            Shown(f"/features/{SERVABLE}?name={quote(column)}", (column,)),
            Shown("/releases", versions),
            Shown("/engines", ("up",)),
            *of_each,
        ]

    def stop(self) -> int:
        """Asks the hub to end; its exit status."""
        if self._client is not None:
            self._client.close()
        return stop(self._process, "the hub", self.output)

    def kill(self) -> None:
        """Ends the process at once, where the demo itself failed."""
        kill(self._process)

    @property
    def _ready(self) -> Path:
        return self._folders.hub / "ready.json"

    def _http(self) -> httpx.Client:
        if self._client is None:
            wait_for_ready_file(self._process, self._ready, "the hub", self.output, _READY_SECONDS)
            address = json.loads(self._ready.read_text())["address"]
            self._client = httpx.Client(base_url=address, timeout=_ANSWER_SECONDS, trust_env=False)
        return self._client

    def _post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._http().post(f"/api/v1{path}", json=document)
        if not answer.is_success:
            raise Unavailable(f"the hub does not take {path} ({answer.status_code}): {answer.text[:500]}")
        found: dict[str, Any] = answer.json()
        return found

    def _settings(self) -> str:
        folders = self._folders
        tables: dict[str, dict[str, object]] = {
            "": {"directory": str(folders.hub), "watch_seconds": 2},
            "[engines.demo]": {"control": self._control},
            "[releases]": {
                "repository": str(folders.repository),
                "private_key": str(folders.private_key),
                "held_out": str(folders.held_out),
                "label": LABEL,
            },
        }
        lines = []
        for head, table in tables.items():
            lines += [head, *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
        return "\n".join(lines).lstrip() + "\n"


def as_text(page: str) -> str:
    """What a page shows, without its markup and with one space where there is any."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", page)).split())
