"""Looks at the registry again and again, and at once where a webhook says so; remembers since when it is away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.registry.mlflow_rest import MlflowRegistry
from tidegate_pipelines.hub.registry.reconcile import REGISTRY, Reconciler
from tidegate_pipelines.hub.registry.tell import Teller
from tidegate_pipelines.hub.store import Database, RegistryRow
from tidegate_serving.contract.errors import TidegateError

logger = logging.getLogger(__name__)
_TELL_SECONDS = 0.5
_UP, _AWAY = "UP", "AWAY"


class RegistryWatch:
    """Two threads: one looks at what the registry wants, one tells it what came of that."""

    def __init__(self, config: HubConfig, database: Database, on_request: Callable[[], None]) -> None:
        self._config = config
        self._database = database
        self._registry = MlflowRegistry(config.mlflow)
        self._reconciler = Reconciler(config, database, self._registry)
        self._teller = Teller(config, database, self._registry)
        self._on_request = on_request
        self._named: set[str] = set()
        self._complained = ""
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._look, name="registry"),
            threading.Thread(target=self._tell, name="registry-tags"),
        ]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def look_at(self, model: str) -> None:
        """Soon, whatever the poll's turn is."""
        with self._guard:
            self._named.add(model)
        self._wake.set()

    def stop(self) -> None:
        """Ends when the calls under way have."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self._registry.close()

    def _look(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            self._wake.clear()
            with self._guard:
                named, self._named = self._named, set()
            everything = time.monotonic() >= due
            if everything:
                due = time.monotonic() + self._config.mlflow.poll_seconds
            if everything or named:
                self._reconcile(None if everything else named)
            self._wake.wait(max(0.0, due - time.monotonic()))

    def _reconcile(self, models: set[str] | None) -> None:
        try:
            asked = self._reconciler.all() if models is None else self._reconciler.some(sorted(models))
        except TidegateError as error:
            self._complain(error.message)
            self._note(error.message)
            return
        except Exception as error:
            logger.exception("registry: this is a fault of Tidegate; it is asked again")
            self._note(f"this is a fault of Tidegate: {type(error).__name__}")
            return
        if models is None:
            self._complained = ""
            self._note("")
        if asked:
            self._on_request()

    def _complain(self, problem: str) -> None:
        """Once, not at each poll; pages say since when."""
        logger.log(logging.DEBUG if problem == self._complained else logging.WARNING, "%s: it is asked again", problem)
        self._complained = problem

    def _note(self, problem: str) -> None:
        state = _AWAY if problem else _UP
        try:
            with self._database.writing() as session:
                now = self._database.now(session)
                row = session.get(RegistryRow, REGISTRY, with_for_update=True)
                if row is None:
                    row = RegistryRow(name=REGISTRY, state="", since=now, last_seen=None)
                    session.add(row)
                row.address = self._registry.address
                if row.state != state:
                    row.state, row.since = state, now
                row.problem = problem or self._teller.refusals
                row.last_seen = row.last_seen if problem else now
        except TidegateError as error:
            logger.warning("%s", error.message)

    def _tell(self) -> None:
        pause = _TELL_SECONDS
        while not self._stopping.wait(pause):
            pause = self._config.mlflow.poll_seconds
            try:
                self._teller.all()
                pause = _TELL_SECONDS
            except TidegateError as error:
                logger.warning("%s: what came of releases is told later", error.message)
            except Exception:
                logger.exception("registry: this is a fault of Tidegate; what came of releases is told later")
