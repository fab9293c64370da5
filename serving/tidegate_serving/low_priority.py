"""Low priority for threads that load and for verifying files, so that loading takes no processor from inference.

Large files are read by the native module, in a thread of idle priority and without the GIL.
"""

from __future__ import annotations

from pathlib import Path

from tidegate_native import enter_low_priority, file_sha256

from tidegate_serving.contract.manifest import Manifest, measure, verify_files

__all__ = ["LARGE_BYTES", "enter_low_priority", "verify_at_low_priority"]

LARGE_BYTES = 8 << 20


def verify_at_low_priority(manifest: Manifest, directory: Path) -> None:
    """As `verify_files`, with large files read at idle priority."""
    verify_files(manifest, directory, _measure)


def _measure(path: Path) -> tuple[int, str]:
    return measure(path) if path.stat().st_size < LARGE_BYTES else file_sha256(path)
