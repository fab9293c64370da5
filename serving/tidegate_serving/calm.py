"""Reads the files of large versions against their digests without taking a processor from inference.

Loaders and the RPC Source call it. Neither the GIL nor a processor is held against a request: the reading is the native
module's, in a thread of idle priority.
"""

from __future__ import annotations

from pathlib import Path

from tidegate_native import file_sha256

from tidegate_serving.contract.manifest import Manifest, measure, verify_files

LARGE_BYTES = 8 << 20


def verify_calmly(manifest: Manifest, directory: Path) -> None:
    """`verify_files`, its large files read at idle priority."""
    verify_files(manifest, directory, _measure)


def _measure(path: Path) -> tuple[int, str]:
    return measure(path) if path.stat().st_size < LARGE_BYTES else file_sha256(path)
