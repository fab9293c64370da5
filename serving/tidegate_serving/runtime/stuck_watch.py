"""Looks again and again whether a call of a model is stuck, and says so in log, journal, status and readiness.

Other models go on meanwhile, so the engine stays ready; whoever asks why hears which model hangs since when.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.requests.running_calls import RunningCall
from tidegate_serving.sources.problems import Reports

NAME = "model"
_SECONDS = 1.0
_SHOWN = 5
_log = logging.getLogger(__name__)


class StuckWatch:
    """`stuck` gives the calls that are stuck now, the longest first; `remark` takes what readiness shall say."""

    def __init__(
        self, stuck: Callable[[], list[RunningCall]], problems: Reports, remark: Callable[[str], None]
    ) -> None:
        self._stuck = stuck
        self._problems = problems
        self._remark = remark
        self._told: dict[str, RunningCall] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-stuck-watch", daemon=True)

    def start(self) -> None:
        """Looks on a thread of its own from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Looks no more."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def look(self) -> None:
        """Tells what has changed since the last look: each model's longest stuck call, and where none is any more."""
        now: dict[str, RunningCall] = {}
        for call in self._stuck():
            known = self._told.get(call.model)
            same = known is not None and (known.version, known.request_id) == (call.version, call.request_id)
            now.setdefault(call.model, known if known is not None and same else call)
        if now == self._told:
            return
        for model in self._told.keys() - now.keys():
            self._problems.settle(model, NAME)
        for model, call in now.items():
            if self._told.get(model) != call:
                self._problems.report(model, NAME, Unavailable(str(call)))
        self._told = now
        more = [f"and {len(now) - _SHOWN} more"] if len(now) > _SHOWN else []
        self._remark("; ".join([*map(str, list(now.values())[:_SHOWN]), *more]))

    def _run(self) -> None:
        while not self._stopping.wait(_SECONDS):
            try:
                self.look()
            except Exception:
                _log.exception("whether a call is stuck could not be told, the next look tries again")
