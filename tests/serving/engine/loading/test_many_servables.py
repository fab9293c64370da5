"""What an engine with hundreds of servables does for one of them: no more than one with ten; and threads on demand."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from tidegate_serving.contract.servable import State
from tidegate_serving.engine import Engine

FEW, MANY = 10, 300
CHANGES = 10


class Calls:
    """Counts what threads that start while it is installed call."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        self.count += event == "call"


def double(x: Any) -> Mapping[str, Any]:
    return {"y": x * 2}


def serve(engine: Engine, name: str) -> None:
    engine.serve(name, double, inputs={"x": "float32"}, outputs={"y": "float32"})


def calls_of(servables: int) -> tuple[int, int]:
    """What the engine's own threads call for a change of one servable, and how many counters the status of one has."""
    calls = Calls()
    threading.setprofile(calls)
    try:
        engine = Engine()
        engine.start()
    finally:
        threading.setprofile(None)
    try:
        for number in range(servables):
            serve(engine, f"m{number}")
        before = calls.count
        for number in range(CHANGES):
            serve(engine, f"m{number}")
            engine.wait_until(f"m{number}", 1, State.END, 30)
        return (calls.count - before) // CHANGES, len(engine.status("m0").counters)
    finally:
        engine.stop()


def test_a_change_and_a_status_cost_what_changed_and_not_what_there_is() -> None:
    (few, few_counters), (many, many_counters) = calls_of(FEW), calls_of(MANY)
    assert few > 50
    assert many <= 1.2 * few
    assert many_counters <= few_counters + 2


def executor_threads() -> int:
    return sum(is_executor(task) for task in Path("/proc/self/task").iterdir())


def is_executor(task: Path) -> bool:
    try:
        return (task / "comm").read_text().strip() == "tg-exec"
    except (FileNotFoundError, ProcessLookupError):
        return False  # it ended meanwhile


def test_only_what_is_asked_has_a_thread() -> None:
    before = executor_threads()
    with Engine() as engine:
        for number in range(20):
            serve(engine, f"m{number}")
        assert executor_threads() == before
        for _ in range(3):
            assert engine.predict("m7", {"x": [1.0]})["y"].tolist() == [2.0]
        assert executor_threads() == before + 1
