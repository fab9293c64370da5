"""The pool of threads: it grows and shrinks while it works, and loses no task."""

from __future__ import annotations

import threading

import pytest
from tests.support.eventually import eventually

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.lifecycle.pool import ThreadPool


class Gate:
    """Tasks that count themselves in and wait."""

    def __init__(self) -> None:
        self.inside = threading.Semaphore(0)
        self.open = threading.Event()
        self.done = threading.Semaphore(0)

    def task(self) -> None:
        self.inside.release()
        assert self.open.wait(30)
        self.done.release()


def test_it_grows_and_shrinks_and_loses_no_task() -> None:
    pool, gate = ThreadPool("test", 1), Gate()
    for _ in range(5):
        pool.submit(gate.task)
    assert gate.inside.acquire(timeout=30)
    assert not gate.inside.acquire(blocking=False)
    pool.resize(4)
    for _ in range(3):
        assert gate.inside.acquire(timeout=30)
    assert pool.threads == 4
    pool.resize(1)
    assert pool.threads == 4, "none is interrupted"
    gate.open.set()
    for _ in range(5):
        assert gate.done.acquire(timeout=30)
    eventually(lambda: pool.threads == 1)
    pool.submit(gate.task)
    assert gate.done.acquire(timeout=30)
    pool.stop(30)
    assert pool.threads == 0


def test_what_was_submitted_runs_before_the_end_and_a_failing_task_harms_no_other() -> None:
    pool, seen = ThreadPool("test", 1), threading.Event()
    pool.submit(lambda: [][0])
    pool.submit(seen.set)
    pool.stop(30)
    assert seen.is_set()


def test_stop_waits_no_longer_than_it_was_told() -> None:
    pool, gate = ThreadPool("test", 2), Gate()
    pool.submit(gate.task)
    assert gate.inside.acquire(timeout=30)
    pool.stop(0.01)
    assert pool.threads == 1
    gate.open.set()
    eventually(lambda: pool.threads == 0)


def test_tasks_that_do_not_end_give_their_places_up_while_others_wait() -> None:
    pool, hung, gate = ThreadPool("test", 2, patience=0.01), Gate(), Gate()
    for _ in range(5):
        pool.submit(hung.task)
    for _ in range(5):
        assert hung.inside.acquire(timeout=30)
    gate.open.set()
    for _ in range(3):
        pool.submit(gate.task)
        assert gate.done.acquire(timeout=30)
    hung.open.set()
    for _ in range(5):
        assert hung.done.acquire(timeout=30)
    eventually(lambda: pool.threads == 2)
    pool.stop(30)
    assert pool.threads == 0


def test_a_task_that_takes_long_keeps_its_place_where_no_other_waits() -> None:
    pool, gate = ThreadPool("test", 1, patience=0.01), Gate()
    pool.submit(gate.task)
    assert gate.inside.acquire(timeout=30)
    eventually(lambda: not any(one.name == "test-watch" for one in threading.enumerate()))
    assert pool.threads == 1
    gate.open.set()
    pool.stop(30)


def test_a_pool_without_threads_is_refused() -> None:
    with pytest.raises(InvalidInput, match="use 1 or more"):
        ThreadPool("test", 0)


def test_each_thread_does_first_what_all_are_to_do_first() -> None:
    first: list[str] = []
    done: list[str] = []
    pool = ThreadPool("p", 2, lambda: first.append(threading.current_thread().name))
    pool.submit(lambda: done.append(threading.current_thread().name))
    pool.stop(10)
    assert sorted(first) == ["p-1", "p-2"]
    assert len(done) == 1
    assert set(done) <= set(first)
