"""A file of JSON lines to which an engine adds what it has to remember, so that remembering one thing costs one line.

The memory of admissions is written through here; a line is on disk before whoever adds it goes on, and one that a crash
tore is as if it had never been.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.formats import MALFORMED
from tidegate_serving.files.atomic import append, sync
from tidegate_serving.files.state import file_error, keep


class RecordFile:
    """One JSON object a line. Not synchronised: its owner holds a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines = 0

    def read(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Every whole line and where it stands, oldest first; none where there is no file. InvalidInput, naming file
        and line, for one that is no object, unless it is the last and a crash tore it."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        for number, line in enumerate(data[: _whole(data)].splitlines(), start=1):
            where = f"{self._path}, line {number}"
            try:
                document = json.loads(line)
            except MALFORMED as error:
                raise InvalidInput(f"{where} is not JSON ({error}): restore the file, or remove it") from error
            if not isinstance(document, dict):
                raise InvalidInput(f"{where} holds no object: restore the file, or remove it")
            self.lines = number
            yield document, where

    def add(self, document: dict[str, Any]) -> None:
        """Adds a line, behind the last whole one, on disk before it returns; where that fails, the file is as it was
        and this raises as `state.keep`."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not self._path.exists()
            with self._path.open("xb" if is_new else "r+b") as file:
                _append(file.fileno(), _line(document))
            if is_new:
                sync(self._path.parent)
        except OSError as error:
            raise file_error(error, self._path) from error
        self.lines += 1

    def replace(self, documents: Sequence[dict[str, Any]]) -> None:
        """Makes these the only lines, all or none; raises as `state.keep`."""
        keep(self._path, b"".join(map(_line, documents)))
        self.lines = len(documents)


def _line(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, sort_keys=True) + "\n").encode()


def _whole(data: bytes) -> int:
    """Bytes up to the end of the last whole line."""
    return data.rfind(b"\n") + 1


def _append(descriptor: int, line: bytes) -> None:
    size = end = os.lseek(descriptor, 0, os.SEEK_END)
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        end = _whole(os.pread(descriptor, size, 0))
    append(descriptor, end, line)
