"""Threads that take turns: tasks of pools run on threads of their own, one at a time, each up to its next pause.

Tests of interleavings submit and step; what runs next is the test's decision, so that every history can be told again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

_PATIENCE = 30.0
Task = Callable[[], None]


class Abandoned(BaseException):
    """The process that a task lived in is gone."""


class _Turn:
    """One task on its thread."""

    def __init__(self, task: Task, pool: BatonPool, back: threading.Semaphore) -> None:
        self._task = task
        self._back = back
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.pool = pool
        self.abandoned = False
        self.done = False
        self.error: BaseException | None = None
        self.ident: int | None = None

    def go(self) -> None:
        """Runs it up to its next pause, or to its end."""
        if self.ident is None:
            self._thread.start()
        self._go.release()
        assert self._back.acquire(timeout=_PATIENCE), f"{self._task} neither pauses nor ends: it waits for somebody"

    def pause(self) -> None:
        if not self.abandoned:
            self._back.release()
            assert self._go.acquire(timeout=_PATIENCE * 10)
        if self.abandoned:
            raise Abandoned

    def _run(self) -> None:
        self.ident = threading.get_ident()
        assert self._go.acquire(timeout=_PATIENCE)
        try:
            if not self.abandoned:
                self._task()
        except Abandoned:
            assert self.abandoned
        except BaseException as error:
            self.error = error
        self.done = True
        self._back.release()


class BatonPool:
    """A `TaskPool` with so many threads, which run when they are stepped."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.waiting: deque[Task] = deque()

    def submit(self, task: Task) -> None:
        self.waiting.append(task)


class Baton:
    """Pools, and whose turn it is. What a task raises is raised where it was stepped."""

    def __init__(self) -> None:
        self._back = threading.Semaphore(0)
        self._pools: list[BatonPool] = []
        self._begun: list[_Turn] = []

    def pool(self, threads: int) -> BatonPool:
        self._pools.append(BatonPool(threads))
        return self._pools[-1]

    def pause(self) -> None:
        """Called by a task: somebody else's turn. Nothing where the test itself calls."""
        ident = threading.get_ident()
        for turn in self._begun:
            if turn.ident == ident and not turn.done:
                turn.pause()

    @property
    def choices(self) -> int:
        """How many tasks can go on now."""
        return len(self._begun) + len(self._startable())

    def step(self, choice: int) -> bool:
        """One of them goes on; False where there is none."""
        startable = self._startable()
        count = len(self._begun) + len(startable)
        if not count:
            return False
        choice %= count
        if choice < len(self._begun):
            turn = self._begun[choice]
        else:
            pool = startable[choice - len(self._begun)]
            turn = _Turn(pool.waiting.popleft(), pool, self._back)
            self._begun.append(turn)
        turn.go()
        if turn.done:
            self._begun.remove(turn)
            if turn.error is not None:
                raise turn.error
        return True

    def abandon(self) -> None:
        """Nothing goes on any more, as after a crash."""
        for turn in list(self._begun):
            turn.abandoned = True
            turn.go()
        self._begun.clear()
        for pool in self._pools:
            pool.waiting.clear()

    def _startable(self) -> list[BatonPool]:
        def busy(pool: BatonPool) -> int:
            return sum(turn.pool is pool for turn in self._begun)

        return [pool for pool in self._pools if pool.waiting and busy(pool) < pool.threads]
