"""Large files are read against their digests by threads that stand back, and the digests are those of the plain way."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tidegate_native import enter_low_priority, file_sha256

from tidegate_serving.contract.errors import Tampered
from tidegate_serving.contract.manifest import Manifest, describe_files, measure
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.low_priority import LARGE_BYTES, verify_at_low_priority

PIECE_BYTES = 256 << 10


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


def _policies() -> dict[str, set[int]]:
    """Scheduling policies of this process's threads, by thread name; Python's own are all called `python`."""
    found: dict[str, set[int]] = {}
    for task in Path("/proc/self/task").iterdir():
        name = (task / "comm").read_text().strip()
        key = name if name == "tg-calm" else "python"
        found.setdefault(key, set()).add(os.sched_getscheduler(int(task.name)))
    return found
