"""A few daemon threads that run tasks in order: loads and unloads, apart from inference and from each other.

The manager submits; the engine resizes it: wide for the first load, narrow afterwards. A task that never ends cannot
keep the process from ending.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from tidegate_serving.contract.errors import InvalidInput

_log = logging.getLogger(__name__)
Task = Callable[[], None]


class ThreadPool:
    """Runs tasks on as many threads as it was last told, until stopped; each thread calls `first` before its tasks."""

    def __init__(self, name: str, threads: int, first: Task = lambda: None) -> None:
        self._name = name
        self._first = first
        self._changed = threading.Condition()
        self._tasks: deque[Task] = deque()
        self._threads: set[threading.Thread] = set()
        self._wanted = 0
        self._made = 0
        self._stopping = False
        self.resize(threads)

    @property
    def threads(self) -> int:
        """Threads that there are, those included that end after their present task."""
        with self._changed:
            return len(self._threads)

    def submit(self, task: Task) -> None:
        """Runs the task as soon as a thread is free."""
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()

    def resize(self, threads: int) -> None:
        """More threads begin at once; those too many end after their present task, and no task is lost."""
        if threads < 1:
            raise InvalidInput(f"pool {self._name} is to have {threads} threads: use 1 or more")
        with self._changed:
            self._wanted = threads
            while len(self._threads) < threads and not self._stopping:
                self._begin_thread()
            self._changed.notify_all()

    def stop(self, timeout: float) -> None:
        """Runs what was submitted, then ends; waits for that for at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _begin_thread(self) -> None:
        self._made += 1
        thread = threading.Thread(target=self._run, name=f"{self._name}-{self._made}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _run(self) -> None:
        self._first()
        while (task := self._next()) is not None:
            try:
                task()
            except Exception:
                _log.exception("a task on %s failed", threading.current_thread().name)

    def _next(self) -> Task | None:
        """The next task, or None where this thread is one too many or all is done."""
        with self._changed:
            while len(self._threads) <= self._wanted:
                if self._tasks:
                    return self._tasks.popleft()
                if self._stopping:
                    break
                self._changed.wait()
            self._threads.discard(threading.current_thread())
            return None
