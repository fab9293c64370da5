"""A stop signal is never missed: not before the wait, not during it, not on another thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tidegate_serving.stop_signal import StoppedEarlyError, StopSignal


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_wait_ends_it_at_once(number: int) -> None:
    with StopSignal() as stop:
        send(number)
        assert stop.wait()


ON_ANOTHER_THREAD = """
import signal, threading
from tidegate_serving.stop_signal import StopSignal

with StopSignal() as stop:
    thread = threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
    threading.Timer(0.2, thread.start).start()
    stop.wait()
print("ended")
"""


def test_a_signal_on_another_thread_ends_the_wait() -> None:
    command = [sys.executable, "-c", ON_ANOTHER_THREAD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_a_signal_during_the_start_interrupts_it_once() -> None:
    with StopSignal() as stop:
        with pytest.raises(StoppedEarlyError), stop.interrupting():
            send()
        send()
        assert stop.wait()


def test_a_signal_before_the_start_keeps_it_from_beginning() -> None:
    with StopSignal() as stop:
        send()
        begun = False
        with pytest.raises(StoppedEarlyError), stop.interrupting():
            begun = True
        assert not begun


def test_other_signals_do_not_end_the_wait() -> None:
    heard: list[int] = []
    before: Callable[..., object] | int | None = signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    try:
        with StopSignal() as stop:
            send(signal.SIGUSR1)
            sent = threading.Event()

            def send_later() -> None:
                sent.set()
                send()

            threading.Timer(0.1, send_later).start()
            assert stop.wait()
            assert sent.is_set()
        assert heard == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_handlers_are_as_before_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with StopSignal():
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] != before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
