"""Threads of the probe's concurrent calls change places inside a model's own code, and only there."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tidegate_serving.probing.interleaving import interleaved

MODEL = """
import threading

class Racy:
    def answer(self, value):
        self.kept = value
        return self.kept

class Locked(Racy):
    lock = threading.Lock()

    def answer(self, value):
        with self.lock:
            return super().answer(value)

class Local:
    def answer(self, value):
        kept = value
        return kept
"""


@pytest.fixture
def models(tmp_path: Path) -> ModuleType:
    module = ModuleType("models")
    path = tmp_path / "models.py"
    exec(compile(MODEL, str(path), "exec"), module.__dict__)
    return module


def wrong_answers(model: Any, threads: int = 4, calls: int = 60) -> int:
    wrong: list[int] = []
    start = threading.Barrier(threads)

    def work(number: int) -> None:
        start.wait()
        with interleaved(seed=number):
            wrong.extend(1 for call in range(calls) if model.answer((number, call)) != (number, call))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join(60)
    return len(wrong)


def test_a_race_of_two_instructions_shows_in_a_few_calls(models: ModuleType) -> None:
    assert wrong_answers(models.Racy()) > 0


@pytest.mark.parametrize("name", ["Locked", "Local"])
def test_what_is_safe_stays_right(models: ModuleType, name: str) -> None:
    assert wrong_answers(getattr(models, name)()) == 0


def test_only_code_that_no_library_holds_gives_way(models: ModuleType) -> None:
    with interleaved(seed=1):
        trace = sys.gettrace()
        assert trace is not None
        in_library = trace(frame_of(Path.exists), "call", None)
        in_model = trace(frame_of(models.Racy.answer), "call", None)
    assert in_library is None
    assert in_model is not None
    assert sys.gettrace() is None or sys.gettrace() is not trace


def frame_of(function: Any) -> Any:
    class Frame:
        f_code = function.__code__

    return Frame()


INSTALLS_SLOWLY = """
import sys, threading, time
from tidegate_serving.probing.interleaving import interleaved

sys.addaudithook(lambda event, _: time.sleep(0.01) if event == "sys.settrace" else None)
failed = []

def work(number):
    try:
        for turn in range(5):
            with interleaved(seed=turn):
                pass
    except RuntimeError as error:
        failed.append(str(error))

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
sys.exit(f"{len(failed)} threads failed: {failed[0]}" if failed else 0)
"""


def test_threads_that_begin_at_the_same_time_do_not_meet() -> None:
    """Python refuses to install a trace function while another thread does; a busy machine makes them meet."""
    run = subprocess.run([sys.executable, "-c", INSTALLS_SLOWLY], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
