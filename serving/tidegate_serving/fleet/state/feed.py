"""Keeps a fleet's view as new as etcd is: reads all of it after each change, and again once etcd is back."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.state.view import FleetView

_AGAIN_SECONDS = 0.5


class Feed:
    """`told` is called after each reading, with what is wrong, None for nothing."""

    def __init__(self, etcd: Etcd, prefix: str, told: Callable[[TidegateError | None], None]) -> None:
        self._etcd = etcd
        self._prefix = prefix
        self._told = told
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-fleet-feed", daemon=True)
        self.view = FleetView()

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and closes the client of etcd."""
        self._stopped.set()
        self._etcd.close()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._read()
                for revision in self._etcd.changes(self._prefix, self.view.revision):
                    if self._stopped.is_set():
                        return
                    if revision > self.view.revision:
                        self._read()
            except TidegateError as error:
                if not self._stopped.is_set():
                    self._told(error)
                    self._stopped.wait(_AGAIN_SECONDS)

    def _read(self) -> None:
        self.view = FleetView.of(self._etcd.read(self._prefix))
        self._told(None)
