"""Runs work that can wait, such as reading a large model's files against their digests, without taking a processor from
inference.

Loaders and the RPC Source hand tasks in; each gets a thread of its own with a lower priority, because a priority once
lowered cannot be raised again, and threads that a model starts while it loads would inherit it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from tidegate_serving.contract.manifest import Manifest, verify_files

NICE = 10
LARGE_BYTES = 8 << 20
T = TypeVar("T")


def in_background(task: Callable[[], T]) -> T:
    """What the task returns, or raises; the caller waits for it."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            _step_back()
            result.set_result(task())
        except BaseException as error:
            result.set_exception(error)

    thread = threading.Thread(target=run, name="tidegate-background", daemon=True)
    thread.start()
    return result.result()


def verify_calmly(manifest: Manifest, directory: Path) -> None:
    """`verify_files`, in the background where there is much to read."""
    if sum(entry.size for entry in manifest.files) < LARGE_BYTES:
        verify_files(manifest, directory)
    else:
        in_background(lambda: verify_files(manifest, directory))


def _step_back() -> None:
    """On Linux a priority belongs to a thread; elsewhere to the process, which keeps its own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))
