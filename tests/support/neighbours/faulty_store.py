"""An object store that stalls, lies and loses things when a test says so; fsspec knows it as `faulty://`."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.local import LocalFileSystem


class FaultyStore(LocalFileSystem):  # type: ignore[misc]
    """A local folder as a store that stalls, sends too much or too little when it is told to."""

    protocol = "faulty"
    stalled: ClassVar[threading.Event | None] = None
    unlisted: ClassVar[frozenset[str]] = frozenset()
    tamper: ClassVar[Callable[[bytes], bytes]] = staticmethod(lambda data: data)

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        if FaultyStore.stalled is not None:
            FaultyStore.stalled.wait()
        entries = super().ls(path, detail=detail, **options)
        return [entry for entry in entries if entry["name"].rpartition("/")[2] not in FaultyStore.unlisted]

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        data = Path(self._strip_protocol(path)).read_bytes()
        return io.BytesIO(FaultyStore.tamper(data) if path.endswith("model.py") else data)


fsspec.register_implementation("faulty", FaultyStore, clobber=True)


def well_again() -> None:
    """Nothing is wrong with it any more."""
    if FaultyStore.stalled is not None:
        FaultyStore.stalled.set()
    FaultyStore.stalled = None
    FaultyStore.unlisted = frozenset()
    FaultyStore.tamper = staticmethod(lambda data: data)
