"""Memory goes back to the system when a large model leaves, and small ones do not pay for all that is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tidegate_serving.lifecycle.memory import (
    LEAST_UNLOADS,
    SHARE_OF_SERVABLES,
    WORTH_IT_BYTES,
    GrowthGauge,
    MemoryReturn,
    resident_bytes,
)


class Collector:
    """Counts."""

    def __init__(self) -> None:
        self.times = 0
        self.memory = MemoryReturn(lambda: 0, self)

    def __call__(self) -> None:
        self.times += 1


def test_a_large_model_gives_its_memory_back_at_once() -> None:
    collector = Collector()
    for _ in range(3):
        assert collector.memory.unloaded(WORTH_IT_BYTES, 0, 1)
    assert collector.times == 3


def test_nothing_is_collected_where_the_process_shrank_by_itself() -> None:
    collector = Collector()
    assert not collector.memory.unloaded(WORTH_IT_BYTES, WORTH_IT_BYTES // 2, 1)
    assert collector.memory.unloaded(WORTH_IT_BYTES, WORTH_IT_BYTES // 2 - 1, 1)


@pytest.mark.parametrize("servables", [10, 300, 10_000])
def test_small_models_do_not_pay_for_all_that_is_loaded(servables: int) -> None:
    """What a collection looks at, over the changes that it is made for: no more with thousands than with a few."""
    collector = Collector()
    changes = 20_000
    for _ in range(changes):
        collector.memory.unloaded(1000, 0, servables)
    assert collector.times >= changes // max(LEAST_UNLOADS, servables)
    assert collector.times * servables / changes <= SHARE_OF_SERVABLES


def test_many_small_models_add_up_to_a_large_one() -> None:
    collector = Collector()
    assert [collector.memory.unloaded(WORTH_IT_BYTES // 4, 0, 10_000) for _ in range(9)] == [
        *([False] * 3 + [True]) * 2,
        False,
    ]


def test_growth_is_told_only_where_no_library_came_along(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([100, 700, 700, 900])
    gauge = GrowthGauge(lambda: next(sizes))
    assert gauge.end(gauge.begin()) == 600
    reading = gauge.begin()
    for number in range(30):
        monkeypatch.setitem(sys.modules, f"a_library_{number}", ModuleType("a_library"))
    assert gauge.end(reading) is None


HEAPS = """
import os, sys, threading
from tidegate_serving.lifecycle.memory import share_heaps

shared = share_heaps()
together = threading.Barrier(9)
def take():
    kept = [bytes(1000) for _ in range(1000)]
    together.wait()
    together.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
together.wait()
import ctypes, re
libc = ctypes.CDLL(None)
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
file = libc.fopen(sys.argv[1].encode(), b"w")
libc.malloc_info(0, file)
libc.fclose(file)
together.wait()
print(shared, len(re.findall("<heap nr", open(sys.argv[1]).read())))
"""


@pytest.mark.parametrize(("asked", "shared"), [({}, "True"), ({"MALLOC_ARENA_MAX": "5"}, "False")])
def test_threads_of_a_server_share_two_heaps_unless_the_operator_says_otherwise(
    tmp_path: Path, asked: dict[str, str], shared: str
) -> None:
    script = [sys.executable, "-c", HEAPS, str(tmp_path / "heaps.xml")]
    done = subprocess.run(script, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=True)
    said, heaps = done.stdout.split()
    assert said == shared
    assert (int(heaps) <= 2) is (shared == "True")


def test_a_process_knows_its_size() -> None:
    before = resident_bytes()
    block = b"x" * (64 << 20)
    assert resident_bytes() - before > len(block) // 2
