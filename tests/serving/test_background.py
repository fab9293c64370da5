"""Background work yields to everything else, and its caller notices nothing of that."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tidegate_serving import background
from tidegate_serving.background import LARGE_BYTES, NICE, in_background, verify_calmly
from tidegate_serving.contract.errors import Tampered
from tidegate_serving.contract.manifest import FileEntry, Manifest
from tidegate_serving.contract.servable import ServableId


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_task_runs_at_a_lower_priority_and_the_caller_keeps_its_own() -> None:
    before = priority()
    assert in_background(priority) == max(NICE, before)
    assert priority() == before


def test_what_a_task_raises_is_raised() -> None:
    def fails() -> None:
        raise Tampered("a.txt differs")

    with pytest.raises(Tampered, match=r"a\.txt differs"):
        in_background(fails)


@pytest.mark.parametrize(("size", "calm"), [(LARGE_BYTES - 1, False), (LARGE_BYTES, True)])
def test_only_much_to_read_is_read_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, calm: bool
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        background, "verify_files", lambda manifest, directory: seen.append(threading.current_thread().name)
    )
    files = (FileEntry("weights", size, "0" * 64),)
    verify_calmly(Manifest(ServableId("m", 1), "python", {}, files, "2026-01-01T00:00:00Z"), tmp_path)
    assert seen == ["tidegate-background" if calm else threading.current_thread().name]


def test_no_thread_stays() -> None:
    before = threading.active_count()
    in_background(threading.get_ident)
    for thread in threading.enumerate():
        if thread.name == "tidegate-background":
            thread.join(10)
    assert threading.active_count() <= before
