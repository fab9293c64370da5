"""Version directories without a manifest: one is made in memory, from the files that lie there.

They are served where the engine's operator sets `allow_unpublished`. Signatures are left for the platform to discover.
A directory that does carry a manifest is never described here, but verified.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
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
    """A file, or whatever lies in a directory, by its path under `root`, with its size and without a hash. Tampered for
    a pipe, a device or whatever else is no file: whoever opens it may wait for ever."""
    found = sorted(_files(path)) if path.is_dir() else [(path, path.stat())]
    entries = []
    for file, status in found:
        if not stat.S_ISREG(status.st_mode):
            raise Tampered(f"{file} is no plain file: remove it, or put the model into a new version")
        entries.append(FileEntry(file.relative_to(root).as_posix(), status.st_size, ""))
    return tuple(entries)


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All but folders. A link that leads nowhere is left out, and one that leads back is not followed."""
    top = directory.stat()
    visited = {(top.st_dev, top.st_ino)}
    for folder, folders, names in os.walk(directory, followlinks=True):
        for name in (*folders, *names):
            path = Path(folder, name)
            try:
                status = path.stat()
            except OSError:
                continue
            if name in names:
                yield path, status
            elif (status.st_dev, status.st_ino) in visited:
                folders.remove(name)
            visited.add((status.st_dev, status.st_ino))
