"""The desired states that the RPC Source was last told, on disk: written aside and renamed before the caller hears yes.

The RPC Source reads them when the engine starts and tells them again. One engine at a time may use a state directory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import FailedPrecondition, Tampered, TidegateError
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.servable import check_name
from tidegate_serving.files.state import keep, lock, make_folder

VERSION = "1"
FOLDER = "desired"
LOCK_NAME = "lock"


class DesiredStateStore:
    """Desired states by servable, a file each, in a directory or, for None, in memory only."""

    def __init__(self, directory: Path | None) -> None:
        self._folder = None if directory is None else directory / FOLDER
        self._lock = None if directory is None else _lock(directory)
        try:
            self._states = {} if self._folder is None else _read_all(self._folder)
        except TidegateError:
            self.close()
            raise

    def all(self) -> list[DesiredState]:
        """Every desired state."""
        return list(self._states.values())

    def get(self, name: str) -> DesiredState | None:
        """The desired state of one servable, or None where nothing was ever said."""
        return self._states.get(name)

    def put(self, desired: DesiredState) -> None:
        """Keeps a desired state, on disk before it returns; where that fails, nothing changes and it raises as
        `files.state.keep`."""
        name = desired.servable
        if self._folder is not None:
            document = {"format": f"tidegate.desired-state/{VERSION}", **desired.to_dict()}
            text = json.dumps(document, indent=1, sort_keys=True) + "\n"
            keep(self._folder / f"{check_name(name)}.json", text.encode())
        self._states[name] = desired

    def close(self) -> None:
        """Lets another engine use the directory."""
        if self._lock is not None:
            self._lock.close()


def _lock(directory: Path) -> TextIO:
    make_folder(directory, "state_directory")
    file = lock(directory / LOCK_NAME)
    if file is None:
        raise FailedPrecondition(
            f"state directory {directory} is used by another engine: stop that one, or choose another directory"
        )
    return file


def _read_all(folder: Path) -> dict[str, DesiredState]:
    if not folder.is_dir():
        return {}
    return {path.name.removesuffix(".json"): _read(path) for path in sorted(folder.glob("[!.]*.json"))}


def _read(path: Path) -> DesiredState:
    try:
        document = json.loads(path.read_bytes())
        check_format(document, kind="desired-state", version=VERSION, where=str(path))
        return DesiredState.from_dict(document)
    except MALFORMED as error:
        raise Tampered(f"{path} cannot be used ({error}): restore it, or remove it and push again") from error
