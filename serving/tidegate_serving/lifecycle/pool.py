"""A few daemon threads that run tasks in order: loads and unloads, apart from inference and from each other.

The manager submits; the engine resizes it: wide for the first load, narrow afterwards. A task that never ends keeps
neither others from their turn nor the process from ending.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from tidegate_serving.contract.errors import InvalidInput

_WATCH_SECONDS = 0.25
_log = logging.getLogger(__name__)
Task = Callable[[], None]


class ThreadPool:
    """Runs tasks on as many threads as it was last told, until stopped; each thread calls `first` before its tasks.

    A task that runs for longer than `patience` seconds while others wait gives its place up: one more thread begins,
    and its own ends with it. 0 for no such limit.
    """

    def __init__(self, name: str, threads: int, first: Task = lambda: None, patience: float = 0.0) -> None:
        self.patience = patience
        self._name = name
        self._first = first
        self._changed = threading.Condition()
        self._tasks: deque[Task] = deque()
        self._threads: set[threading.Thread] = set()
        self._aside: set[threading.Thread] = set()
        self._since: dict[threading.Thread, float] = {}
        self._wanted = 0
        self._made = 0
        self._watched = False
        self._stopping = False
        self.resize(threads)

    @property
    def threads(self) -> int:
        """Threads that there are, those included that end after their present task."""
        with self._changed:
            return len(self._threads | self._aside)

    def submit(self, task: Task) -> None:
        """Runs the task as soon as a thread is free."""
        with self._changed:
            self._tasks.append(task)
            self._changed.notify_all()
            idle = len(self._threads) - len(self._since.keys() & self._threads)
            if self.patience > 0 and len(self._tasks) > idle and not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name=f"{self._name}-watch", daemon=True).start()

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
            threads = [*self._threads, *self._aside]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _begin_thread(self) -> None:
        self._made += 1
        thread = threading.Thread(target=self._run, name=f"{self._name}-{self._made}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _watch(self) -> None:
        """For as long as tasks wait."""
        with self._changed:
            while self._tasks and not self._stopping:
                now = time.monotonic()
                for thread in [one for one in self._threads if self._is_overdue(one, now)]:
                    self._threads.discard(thread)
                    self._aside.add(thread)
                    _log.warning(
                        "a task on %s takes longer than %g s: others go on beside it", thread.name, self.patience
                    )
                while len(self._threads) < self._wanted:
                    self._begin_thread()
                self._changed.wait(_WATCH_SECONDS)
            self._watched = False

    def _is_overdue(self, thread: threading.Thread, now: float) -> bool:
        return self.patience > 0 and now - self._since.get(thread, now) >= self.patience

    def _run(self) -> None:
        self._first()
        while (task := self._next()) is not None:
            try:
                task()
            except Exception:
                _log.exception("a task on %s failed", threading.current_thread().name)

    def _next(self) -> Task | None:
        """The next task, or None where this thread is one too many or all is done."""
        own = threading.current_thread()
        with self._changed:
            self._since.pop(own, None)
            while own in self._threads and len(self._threads) <= self._wanted:
                if self._tasks:
                    self._since[own] = time.monotonic()
                    return self._tasks.popleft()
                if self._stopping:
                    break
                self._changed.wait()
            self._threads.discard(own)
            self._aside.discard(own)
            return None
