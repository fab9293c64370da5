"""Copies of the audit log as files of JSON lines, in a folder or an object store, where the hub's database cannot
change them any more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tidegate_pipelines.hub.audit.line import Line, from_json, to_json
from tidegate_pipelines.hub.audit.log import AuditLog
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable, Unsupported
from tidegate_serving.files import write_atomically
from tidegate_serving.redaction import without_secrets

_LINES_PER_FILE = 10_000
_NAME = re.compile(r"audit-(\d{12})-(\d{12})\.jsonl\Z")


class ExportStore:
    """A place for exports: a folder's path, or a URL that fsspec knows, such as s3://bucket/audit.

    `options` are those of the store, such as an endpoint and credentials.
    """

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise Unsupported("an export needs fsspec: install it with `pip install 'tidegate[objects]'`") from error
        self.url = without_secrets(url.rstrip("/"))
        try:
            self._files, self._root = url_to_fs(url, use_listings_cache=False, **(options or {}))
        except (ImportError, ValueError) as error:
            raise InvalidInput(f"export {self.url} cannot be used: {error}") from error

    def export(self, log: AuditLog) -> int:
        """Writes the lines that no export has yet, one file for at most 10,000 of them. How many lines were written.

        Repeating is safe: a file that is there already holds the same lines. Unavailable where the store does not take
        it; what was written before counts.
        """
        written = 0
        lines = log.lines(after=log.exported())
        while batch := list(islice(lines, _LINES_PER_FILE)):
            name = f"audit-{batch[0].number:012d}-{batch[-1].number:012d}.jsonl"
            self._write(name, b"".join(map(to_json, batch)))
            log.set_exported(batch[-1].number)
            written += len(batch)
        return written

    def read(self) -> Iterator[Line]:
        """Every line of every file, in the order of the files. NotFound where there is none, Tampered for a line that
        is none."""
        try:
            found = sorted(entry.rpartition("/")[2] for entry in self._files.ls(self._root, detail=False))
        except FileNotFoundError as error:
            raise NotFound(f"no audit log was exported to {self.url}: check the place") from error
        except OSError as error:
            raise Unavailable(f"{self.url} cannot be listed ({error}): try again") from error
        names = [name for name in found if _NAME.match(name)]
        if not names:
            raise NotFound(f"{self.url} holds no export of an audit log (audit-*.jsonl): check the place")
        for name in names:
            with self._files.open(f"{self._root}/{name}", "rb") as file:
                for number, line in enumerate(file, start=1):
                    yield from_json(line, f"{self.url}/{name}, line {number}")

    def _write(self, name: str, data: bytes) -> None:
        """A store makes an object whole or not at all, and so is a file in a folder, on disk before this returns."""
        target = f"{self._root}/{name}"
        try:
            if "file" in self._files.protocol:
                write_atomically(Path(target), data)
            else:
                self._files.makedirs(self._root, exist_ok=True)
                self._files.pipe_file(target, data)
        except OSError as error:
            raise Unavailable(
                f"the audit log could not be written to {self.url}/{name} ({error}): try again"
            ) from error
