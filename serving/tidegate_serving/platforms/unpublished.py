"""Version directories without a manifest: one is made in memory, from the files that lie there.

They are served where the engine's operator sets `allow_unpublished`. Signatures are left for the platform to discover.
A directory that does carry a manifest is never described here, but verified.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from tidegate_serving.contract.errors import NotFound, Tampered
from tidegate_serving.contract.manifest import FILE_NAME, FileEntry, Manifest, verify_files
from tidegate_serving.contract.servable import ServableId


def has_manifest(directory: Path) -> bool:
    """Whether the directory was published."""
    return (directory / FILE_NAME).exists()


def describe_unpublished(id: ServableId, platform: str, directory: Path) -> Manifest:
    """What the directory holds now, links followed, without hashes and signatures. NotFound where it is empty."""
    entries = file_entries(directory, directory)
    if not entries:
        raise NotFound(f"{directory} holds no files: put the model of {id} there")
    made_at = datetime.fromtimestamp(directory.stat().st_mtime, tz=UTC)
    return Manifest(id, platform, {}, entries, made_at.isoformat(timespec="seconds"))


def verify_described(manifest: Manifest, directory: Path) -> None:
    """Raises Tampered unless the directory still holds what its manifest lists: the same bytes where it was published,
    else, because what was described has no hashes, files of the same names and sizes."""
    if any(entry.sha256 for entry in manifest.files):
        verify_files(manifest, directory)
    elif file_entries(directory, directory) != manifest.files:
        raise Tampered(f"{directory} changed since {manifest.id} was loaded: put changed files into a new version")


def file_entries(path: Path, root: Path) -> tuple[FileEntry, ...]:
    """A file, or whatever lies in a directory, by its path under `root`, with its size and without a hash."""
    found = [path] if path.is_file() else _files(path)
    return tuple(FileEntry(file.relative_to(root).as_posix(), file.stat().st_size, "") for file in found)


def _files(directory: Path) -> list[Path]:
    return sorted(
        path
        for folder, _, names in os.walk(directory, followlinks=True)
        for path in (Path(folder, name) for name in names)
        if path.is_file()
    )
