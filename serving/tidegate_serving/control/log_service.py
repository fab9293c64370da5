"""Gives out the inference log over the control port, to who judges a version where the engine's disk is not to be seen.

Files are written aside and renamed, so each is whole; one that retention takes away while it is read ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import check_name

PIECE_BYTES = 1 << 20


class GivesLog(Protocol):
    """What answers whoever reads the log."""

    def read(self, request: Any) -> Iterator[Any]:
        """Pieces for a `ReadLogRequest`."""


@dataclass(frozen=True, slots=True)
class LogService:
    """`root` is the engine's `log_path`, None where it keeps no log."""

    root: Path | None

    def read(self, request: Any) -> Iterator[Any]:
        """Answers a `ReadLogRequest`: first a piece that lists the files, then those that the client wants.

        Raises FailedPrecondition where no log is kept, InvalidInput for a request without a name or version.
        """
        if self.root is None:
            raise FailedPrecondition("this engine keeps no inference log: start it with a `log_path`")
        if not request.versions:
            raise InvalidInput("a log is read of named versions: name at least one")
        piece, root = message("tidegate.v1.LogPiece"), self.root
        found = _files(root, check_name(request.servable), request.versions, request.since_us)
        paths = [str(path.relative_to(root)) for path in found]
        yield piece(present=paths)
        wanted = frozenset(request.wanted)
        for path in paths:
            if path in wanted:
                yield from _pieces(piece, root / path, path)


def _files(root: Path, servable: str, versions: Iterable[int], since_us: int) -> list[Path]:
    found = []
    for version in versions:
        for path in root.glob(f"model={servable}/version={int(version)}/date=*/*.parquet"):
            try:
                written_us = path.stat().st_mtime_ns // 1000
            except FileNotFoundError:
                continue
            if written_us >= since_us:
                found.append((written_us, path))
    return [path for _, path in sorted(found)]


def _pieces(piece: Any, file: Path, path: str) -> Iterator[Any]:
    """Those of one file; none where it has gone, which the client sees in the next list."""
    try:
        stream = file.open("rb")
    except FileNotFoundError:
        return
    with stream:
        data = stream.read(PIECE_BYTES)
        while data:
            following = stream.read(PIECE_BYTES)
            yield piece(path=path, data=data, last=not following)
            data = following
