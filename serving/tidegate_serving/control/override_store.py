"""Operators' overrides and the history of ordinary traffic on disk, one file per servable, so that a change costs what
it changes.

The reconciler reads them all when the engine starts, and writes one with each decision, before the answer.
"""

from __future__ import annotations

import json
from pathlib import Path

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, Tampered
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.servable import check_name
from tidegate_serving.control.overrides import NO_HISTORY, NO_OVERRIDES, History, Overrides
from tidegate_serving.files.state import keep

VERSION = "1"
FOLDER = "overrides"
Record = tuple[Overrides, History]
NOTHING: Record = (NO_OVERRIDES, NO_HISTORY)


class OverrideStore:
    """Records by servable, under `state_directory` or, for None, in memory only."""

    def __init__(self, state_directory: Path | None) -> None:
        self._folder = None if state_directory is None else state_directory / FOLDER
        self._records = {} if self._folder is None else _read_all(self._folder)
        self._lost: dict[str, Record] = {}

    def names(self) -> list[str]:
        """Servables about which something was decided or is remembered."""
        return sorted(self._records)

    def knows(self, name: str) -> bool:
        """Whether one of them is this."""
        return name in self._records

    def get(self, name: str) -> Record:
        """What was decided about one servable, and its history."""
        return self._records.get(name, NOTHING)

    def put(self, name: str, record: Record) -> None:
        """Keeps it, on disk before it returns; where that fails, nothing changes and it raises as `files.state.keep`.

        What is on disk still, because a change from it could not be kept, needs no disk.
        """
        if self._folder is not None and self._lost.get(name) != record:
            keep(self._folder / f"{check_name(name)}.json", _to_bytes(name, record))
        self._lost.pop(name, None)
        self._records[name] = record

    def put_in_memory(self, name: str, record: Record) -> None:
        """Counts until the engine stops; for what must take effect even where the disk takes nothing."""
        self._lost.setdefault(name, self.get(name))
        self._records[name] = record


def _to_bytes(name: str, record: Record) -> bytes:
    overrides, history = record
    document = {
        "format": f"tidegate.overrides/{VERSION}",
        "servable": name,
        **overrides.to_dict(),
        "served": [version.to_dict() for version in history.served],
        "serving": history.serving and history.serving.to_dict(),
    }
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def _read_all(folder: Path) -> dict[str, Record]:
    if not folder.is_dir():
        return {}
    return {path.stem: _read(path) for path in sorted(folder.glob("[!.]*.json"))}


def _read(path: Path) -> Record:
    try:
        document = json.loads(path.read_bytes())
        check_format(document, kind="overrides", version=VERSION, where=str(path))
        served = tuple(map(VersionReference.from_dict, document["served"]))
        serving = document["serving"] and VersionReference.from_dict(document["serving"])
        return Overrides.from_dict(document), History(served, serving)
    except (*MALFORMED, InvalidInput) as error:
        raise Tampered(f"{path} cannot be used ({error}): restore it, or remove it and decide again") from error
