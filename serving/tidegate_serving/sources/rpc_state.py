"""What the RPC Source was last told, on disk: written aside and renamed before the caller hears yes.

The RPC Source reads it when the engine starts and replays it. One engine at a time may use a state directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tidegate_serving.contract.errors import FailedPrecondition, Tampered, TidegateError
from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.servable import check_name
from tidegate_serving.control.status import Shadow
from tidegate_serving.files.state import keep, lock, make_folder

VERSION = "1"
FOLDER = "aspired"
LOCK_NAME = "lock"


@dataclass(frozen=True, slots=True)
class WantedVersion:
    """One version that a client wants live: its absolute directory, its manifest's digest, its platform."""

    version: int
    path: str
    manifest_digest: str
    platform: str


@dataclass(frozen=True, slots=True)
class Wish:
    """All that a client said of one servable, the whole set each time. `labels` map to version numbers; `at_us` is when
    it was said, Unix microseconds."""

    revision: int
    versions: tuple[WantedVersion, ...]
    labels: Mapping[str, int] = field(default_factory=dict)
    shadow: Shadow | None = None
    requested_by: str = ""
    reason: str = ""
    keep_previous: bool = False
    at_us: int = 0

    def version(self, number: int) -> WantedVersion | None:
        """One wanted version, or None."""
        return next((version for version in self.versions if version.version == number), None)


class WishStore:
    """Wishes by servable, a file each, in a directory or, for None, in memory only."""

    def __init__(self, directory: Path | None) -> None:
        self._folder = None if directory is None else directory / FOLDER
        self._lock = None if directory is None else _lock(directory)
        try:
            self._wishes = {} if self._folder is None else _read_all(self._folder)
        except TidegateError:
            self.close()
            raise

    def all(self) -> dict[str, Wish]:
        """Every wish by servable name."""
        return dict(self._wishes)

    def get(self, name: str) -> Wish | None:
        """The wish for one servable, or None where nothing was ever said."""
        return self._wishes.get(name)

    def put(self, name: str, wish: Wish) -> None:
        """Keeps a wish, on disk before it returns; where that fails, nothing changes and it raises as
        `state_file.keep`."""
        if self._folder is not None:
            _write(self._folder / f"{check_name(name)}.json", name, wish)
        self._wishes[name] = wish

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


def _read_all(folder: Path) -> dict[str, Wish]:
    if not folder.is_dir():
        return {}
    return {path.name.removesuffix(".json"): _read(path) for path in sorted(folder.glob("[!.]*.json"))}


def _read(path: Path) -> Wish:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise Tampered(f"{path} is not JSON ({error}): restore it, or remove it and push again") from error
    check_format(document, kind="aspired", version=VERSION, where=str(path))
    try:
        return _wish(document)
    except (KeyError, TypeError, ValueError) as error:
        raise Tampered(f"{path} cannot be used ({error}): restore it, or remove it and push again") from error


def _wish(data: Mapping[str, Any]) -> Wish:
    return Wish(
        revision=int(data["revision"]),
        versions=tuple(WantedVersion(**version) for version in data["versions"]),
        labels={label: int(version) for label, version in data["labels"].items()},
        shadow=None if data["shadow"] is None else Shadow(**data["shadow"]),
        requested_by=data["requested_by"],
        reason=data["reason"],
        keep_previous=data["keep_previous"],
        at_us=data["at_us"],
    )


def _write(path: Path, name: str, wish: Wish) -> None:
    document = {"format": f"tidegate.aspired/{VERSION}", "servable": name, **asdict(wish)}
    keep(path, (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
