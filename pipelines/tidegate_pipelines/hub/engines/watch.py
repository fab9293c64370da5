"""Asks every engine again and again how it is, and keeps what it says; one that is away, with the moment since when."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.engines.record import forget_others, note_away, note_status
from tidegate_pipelines.hub.engines.skew import read_reports
from tidegate_pipelines.hub.rounds import Rounds
from tidegate_pipelines.hub.store import Database
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.control_client import ControlClient


class EngineWatch:
    """Asks in `rounds`, each engine on a thread, so that none waits for another that does not answer."""

    def __init__(self, config: HubConfig, database: Database) -> None:
        self._config = config
        self._database = database
        self.rounds = Rounds("engines", self.look, config.watch_seconds)
        self._read: set[str] = set()

    def look(self) -> None:
        """Asks all engines once, forgets those that the config no longer has, and reads skew reports that are new."""
        engines = each_engine(self._config)
        forget_others(self._database, engines)
        with ThreadPoolExecutor(max(len(engines), 1), "engine") as pool:
            list(pool.map(self._ask, engines, engines.values()))
        if self._config.skew_reports is not None:
            self._read |= read_reports(self._database, self._config.skew_reports, self._read)

    def _ask(self, name: str, connection: EngineConnection) -> None:
        asked = datetime.now(UTC)
        try:
            with ControlClient(connection) as client:
                status = client.status()
        except TidegateError as error:
            note_away(self._database, name, str(connection), error.message)
            return
        note_status(self._database, name, str(connection), status, asked)


def each_engine(config: HubConfig) -> dict[str, EngineConnection]:
    """Every engine by a name of its own; one of a group by the group's name and its address."""
    found: dict[str, EngineConnection] = {}
    for name, connection in config.connections().items():
        for one in connection.each():
            found[f"{name}/{one}" if connection.is_group else name] = one
    return found
