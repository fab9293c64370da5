"""Puts a version's files into another server's model repository, all at once, and never over other files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.contract.errors import AlreadyExists, Tampered
from tidegate_serving.contract.manifest import FileEntry, measure
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.files import folder_aside


@dataclass(frozen=True, slots=True)
class Exported:
    """The version, where it lies now, the server's config that names it, if one was written, and whether it is new
    there."""

    id: ServableId
    directory: Path
    config: Path | None
    changed: bool


def place(source: Path, files: Mapping[str, FileEntry], target: Path) -> bool:
    """Copies `files`, by their path in `target`, and makes that folder in one move; False where they lie there already.

    AlreadyExists where it holds other files.
    """
    if target.exists():
        if _holds(target, files):
            return False
        raise AlreadyExists(f"{target} holds other files: export under a number that is free, or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    with folder_aside(target, ".exporting") as aside:
        for path, entry in files.items():
            (aside / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / entry.path, aside / path)
            if measure(aside / path) != (entry.size, entry.sha256):
                raise Tampered(f"{source / entry.path} changed while it was copied: publish the version again")
    return True


def _holds(target: Path, files: Mapping[str, FileEntry]) -> bool:
    there = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    return there == files.keys() and all(
        measure(target / path) == (entry.size, entry.sha256) for path, entry in files.items()
    )
