"""A few daemon threads that run tasks in order: loads and unloads, apart from inference and from each other.

The manager submits; a task that never ends cannot keep the process from ending.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)
Task = Callable[[], None]


class ThreadPool:
    """Runs tasks on `threads` threads until stopped."""

    def __init__(self, name: str, threads: int) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task) -> None:
        """Runs the task as soon as a thread is free."""
        self._tasks.put(task)

    def stop(self, timeout: float) -> None:
        """Lets tasks end that have begun, for at most `timeout` seconds."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(timeout)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                _log.exception("a task on %s failed", threading.current_thread().name)
