"""A stop signal is never missed: not before the wait, not during it, not on another thread."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from tidegate_serving.stop_signal import StoppedEarlyError, StopSignal


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_wait_ends_it_at_once(number: int) -> None:
    with StopSignal() as stop:
        stop.started()
        send(number)
        stop.wait()


def test_a_signal_on_another_thread_ends_the_wait() -> None:
    with StopSignal() as stop:
        stop.started()
        waiting = threading.Event()

        def kill_this_thread() -> None:
            waiting.wait(10)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

        thread = threading.Thread(target=kill_this_thread)
        thread.start()
        waiting.set()
        stop.wait()
        thread.join(10)


def test_a_signal_during_the_start_interrupts_it_once() -> None:
    with StopSignal() as stop:
        with pytest.raises(StoppedEarlyError):
            send()
        send()
        stop.wait()


def test_other_signals_do_not_end_the_wait() -> None:
    heard: list[int] = []
    before: Callable[..., object] | int | None = signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    try:
        with StopSignal() as stop:
            stop.started()
            send(signal.SIGUSR1)
            threading.Timer(0.1, send).start()
            stop.wait()
        assert heard == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_handlers_are_as_before_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with StopSignal():
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] != before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
