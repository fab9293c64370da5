"""What goes on with the audit log in the background: engines' journals come in, lines are exported, old ones go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from tidegate_pipelines.hub.audit.engines import fetch
from tidegate_pipelines.hub.audit.export import ExportStore
from tidegate_pipelines.hub.audit.log import AuditLog, now_us
from tidegate_pipelines.hub.people_config import AuditConfig
from tidegate_pipelines.hub.rounds import Rounds
from tidegate_pipelines.hub.store import Database
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import TidegateError, Unavailable

ASKED_BY_HUB = "hub: "
"""How the journal of an engine names whoever decided in the hub."""
_MICROSECONDS = 1_000_000
_log = logging.getLogger(__name__)


class AuditKeeper:
    """Looks after the log in `rounds`; what fails in one holds up nothing else in it."""

    def __init__(
        self,
        database: Database,
        audit: AuditLog,
        config: AuditConfig,
        connections: Callable[[], Mapping[str, EngineConnection]],
    ) -> None:
        self._database = database
        self._audit = audit
        self._config = config
        self._connections = connections
        self.rounds = Rounds("audit log", self.look, config.every_seconds)
        self._complaints: dict[str, str] = {}

    def look(self) -> None:
        """Looks once."""
        self._try("engines", self._fetch)
        if self._config.export:
            self._try("export", lambda: ExportStore(self._config.export, self._config.options).export(self._audit))
        if self._config.keep_days:
            self._try("pruning", self._prune)

    def _fetch(self) -> None:
        for name, connection in self._connections().items():
            for engine in connection.each():
                self._try(f"engine {name} at {engine}", partial(self._fetch_one, engine))

    def _fetch_one(self, engine: EngineConnection) -> None:
        fetch(self._database, self._audit, engine, ASKED_BY_HUB)

    def _prune(self) -> None:
        oldest = now_us() - int(timedelta(days=self._config.keep_days).total_seconds() * _MICROSECONDS)
        self._audit.prune(oldest, who="hub", exported_only=bool(self._config.export))

    def _try(self, what: str, work: Callable[[], object]) -> None:
        """Says once what is wrong, and again when that changes."""
        try:
            work()
        except TidegateError as error:
            if self._complaints.get(what) != error.message:
                level = logging.INFO if isinstance(error, Unavailable) else logging.WARNING
                _log.log(level, "audit log, %s: %s", what, error.message)
            self._complaints[what] = error.message
        except Exception:
            _log.exception("audit log, %s failed: it is tried again", what)
        else:
            self._complaints.pop(what, None)
