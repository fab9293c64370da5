"""How many workers each version has, and how many were started in place of dead ones, as metrics."""

from __future__ import annotations

import threading

from tidegate_serving.contract.gauges import Gauges
from tidegate_serving.contract.servable import ServableId

PROCESSES = "tidegate_worker_processes"
RESTARTS = "tidegate_worker_restarts"
_PROCESSES_HELP = "Processes that have a version loaded, by version (and stage of it) that runs outside the engine."
_RESTARTS_HELP = "Processes that were started in place of one that had died, since the version was loaded."


class WorkerGauges:
    """Told what became of the workers of every version. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[ServableId, str], tuple[int, int]] = {}
        self._shown_in: Gauges | None = None

    def show_in(self, gauges: Gauges) -> None:
        """Shows them here, now and after each change."""
        with self._lock:
            self._shown_in = gauges
            self._show()

    def tell(self, id: ServableId, stage: str, processes: int, restarts: int) -> None:
        """A version, or this stage of it, has so many workers now, and so many were started for dead ones."""
        with self._lock:
            self._counts[id, stage] = (processes, restarts)
            self._show()

    def forget(self, id: ServableId, stage: str) -> None:
        """It has no workers any more, and shall have none."""
        with self._lock:
            if self._counts.pop((id, stage), None) is not None:
                self._show()

    def _show(self) -> None:
        if self._shown_in is None:
            return
        found = [
            (
                [("model", servable.name), ("version", str(servable.version)), *([("stage", stage)] if stage else [])],
                counts,
            )
            for (servable, stage), counts in self._counts.items()
        ]
        self._shown_in.set_gauges(PROCESSES, _PROCESSES_HELP, [(labels, float(now)) for labels, (now, _) in found])
        self._shown_in.set_gauges(RESTARTS, _RESTARTS_HELP, [(labels, float(ever)) for labels, (_, ever) in found])
