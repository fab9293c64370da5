"""Large files are read against their digests by threads that stand back, and the digests are those of the plain way."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.eventually import at_best
from tidegate_native import enter_low_priority, file_sha256

from tidegate_serving.contract.errors import Tampered
from tidegate_serving.contract.manifest import Manifest, describe_files, measure
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.low_priority import LARGE_BYTES, verify_at_low_priority

PIECE_BYTES = 256 << 10
BUSY = 12
NAPPING = """
import sys, threading, time
from tidegate_native import enter_low_priority
end = time.monotonic() + 2
turns = []
def nap(stands_back):
    if stands_back:
        enter_low_priority()
    while time.monotonic() < end:
        time.sleep(0.005)
        turns.append(sum(range(1000)))
threads = [threading.Thread(target=nap, args=[number == 0 and sys.argv[1] == "back"]) for number in range(9)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(turns))
"""


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, LARGE_BYTES + 7])
def test_the_digest_is_that_of_the_plain_way(tmp_path: Path, size: int) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(number % 251 for number in range(size)))
    assert file_sha256(path) == measure(path)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-file"):
        file_sha256(tmp_path / "no-such-file")
    with pytest.raises(IsADirectoryError):
        file_sha256(tmp_path)


@pytest.mark.parametrize("size", [16, LARGE_BYTES])
def test_one_changed_byte_at_the_end_is_found(tmp_path: Path, size: int) -> None:
    (tmp_path / "weights").write_bytes(bytes(size))
    manifest = Manifest(ServableId("m", 1), "python", {}, describe_files(tmp_path), "2026-01-01T00:00:00Z")
    verify_at_low_priority(manifest, tmp_path)
    (tmp_path / "weights").write_bytes(bytes(size - 1) + b"\1")
    with pytest.raises(Tampered, match="weights differs"):
        verify_at_low_priority(manifest, tmp_path)


def test_the_reading_thread_is_idle_and_the_caller_keeps_its_priority(tmp_path: Path) -> None:
    """A pipe holds the reading thread while it is looked at."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    caller = threading.Thread(target=file_sha256, args=(pipe,))
    caller.start()
    with pipe.open("wb") as end:
        policies = _policies()
        end.write(b"x")
    caller.join()
    assert policies["tg-calm"] == {os.SCHED_IDLE}
    assert policies["python"] == {os.SCHED_OTHER}


def test_a_thread_that_stands_back_keeps_its_share_and_hands_nothing_down() -> None:
    seen: list[int] = []
    niceness: list[int] = []

    def look() -> None:
        seen.append(os.sched_getscheduler(0))
        niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    def stand_back_and_look() -> None:
        look()
        enter_low_priority()
        look()
        child = threading.Thread(target=look)
        child.start()
        child.join()

    thread = threading.Thread(target=stand_back_and_look)
    thread.start()
    thread.join()
    assert seen == [os.SCHED_OTHER, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.SCHED_OTHER]
    assert len(set(niceness)) == 1


def test_a_thread_that_stands_back_does_not_hold_up_its_process_beside_busy_ones() -> None:
    """On Linux 6.12 and later: a process whose threads wake for a moment each had a fifth of its turns where one of
    them had turns of 100 ms, and an engine that stopped stood still for half a minute."""
    with _busy_core():
        assert at_best(3, lambda: _turns("back") > _turns("none") / 2)


@contextlib.contextmanager
def _busy_core() -> Iterator[None]:
    """This process and those that it starts on one core, where others, sessions of their own, are always busy."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    loop = [sys.executable, "-S", "-c", "while True: pass"]
    busy = [subprocess.Popen(loop, start_new_session=True) for _ in range(BUSY)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for process in busy:
            process.kill()
            process.wait()


def _turns(who: str) -> int:
    """How often nine threads of a process ran that sleep for 5 ms each time, one of which may stand back."""
    command = [sys.executable, "-c", NAPPING, who]
    return int(subprocess.run(command, start_new_session=True, capture_output=True, check=True).stdout)


def _policies() -> dict[str, set[int]]:
    """Scheduling policies of this process's threads, by thread name; Python's own are all called `python`."""
    found: dict[str, set[int]] = {}
    for task in Path("/proc/self/task").iterdir():
        name = (task / "comm").read_text().strip()
        key = name if name == "tg-calm" else "python"
        found.setdefault(key, set()).add(os.sched_getscheduler(int(task.name)))
    return found
