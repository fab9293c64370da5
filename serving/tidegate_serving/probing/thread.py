"""A thread of the probe that does one thing after another, as the engine's threads for loads and batches do.

The probe loads and asks a version on such threads, because what works on a program's main thread (signal handlers,
an event loop) may not work where the engine runs it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class OwnThread:
    """A daemon thread; it ends with the process."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, task: Callable[[], _Result]) -> _Result:
        """What the task returns or raises, there."""
        future: Future[_Result] = Future()
        self._tasks.put((task, future))
        return future.result()

    def _run(self) -> None:
        while True:
            task, future = self._tasks.get()
            try:
                future.set_result(task())
            except BaseException as error:  # handed to the caller, whatever it is
                future.set_exception(error)
            del task, future
