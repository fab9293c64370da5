"""The local copy of what an object store holds, in the layout of a model repository and bounded in size.

The mirror puts whole versions in; the file system source serves them from there. What serves or is about to is never
thrown out to make room.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from tidegate_serving.contract.errors import ResourceExhausted
from tidegate_serving.contract.manifest import FILE_NAME, Manifest
from tidegate_serving.contract.servable import ServableId

_ASIDE = ".fetching"
MANIFESTS = ".manifests"


class VersionCache:
    """Version directories ROOT/NAME/VERSION whose files were verified as they came. `most_bytes` 0 is no bound."""

    def __init__(self, root: Path, most_bytes: int) -> None:
        self.root = root
        self._most_bytes = most_bytes
        root.mkdir(parents=True, exist_ok=True)
        for left in root.glob(f"*/*{_ASIDE}"):
            shutil.rmtree(left)

    def path(self, id: ServableId) -> Path:
        """Where a version lies, or will."""
        return self.root / id.name / str(id.version)

    def manifest_path(self, id: ServableId) -> Path:
        """The folder for a version's manifest alone, known before its files are."""
        return self.root / MANIFESTS / id.name / str(id.version)

    def holds(self, id: ServableId) -> bool:
        """Whether the whole version is there."""
        return (self.path(id) / FILE_NAME).is_file()

    def versions(self, name: str) -> set[ServableId]:
        """Those of a servable that are whole."""
        folder = self.root / name
        if not folder.is_dir():
            return set()
        found = {ServableId(name, int(child.name)) for child in folder.iterdir() if child.name.isdigit()}
        return {one for one in found if self.holds(one)}

    def size(self) -> int:
        """Bytes of all whole versions."""
        return sum(self._sizes().values())

    def touch(self, id: ServableId) -> None:
        """It was wanted just now, so that others are thrown out before it."""
        os.utime(self.path(id))

    @contextlib.contextmanager
    def filling(self, manifest: Manifest, keep: Collection[ServableId]) -> Iterator[Path]:
        """A folder to fetch a version's files into, which becomes the version at the end; room is made first.

        ResourceExhausted where what must be kept leaves too little.
        """
        needed = sum(entry.size for entry in manifest.files) + len(manifest.to_bytes())
        self._make_room(manifest, needed, keep)
        target = self.path(manifest.id)
        aside = target.with_name(f"{target.name}{_ASIDE}")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            yield aside
            aside.rename(target)
        finally:
            if aside.exists():
                shutil.rmtree(aside)

    def remove(self, id: ServableId) -> None:
        """Takes a version out; its name is gone before its files are."""
        for path in (self.path(id), self.manifest_path(id)):
            if path.exists():
                going = path.with_name(f"{path.name}.going")
                path.rename(going)
                shutil.rmtree(going)

    def _make_room(self, manifest: Manifest, needed: int, keep: Collection[ServableId]) -> None:
        if not self._most_bytes:
            return
        sizes = self._sizes()
        total = sum(sizes.values())
        for oldest in sorted(sizes.keys() - set(keep), key=lambda one: self.path(one).stat().st_mtime_ns):
            if total + needed <= self._most_bytes:
                return
            self.remove(oldest)
            total -= sizes[oldest]
        if total + needed > self._most_bytes:
            raise ResourceExhausted(
                f"{manifest.id} needs {needed} bytes in the cache {self.root}, whose {self._most_bytes} hold {total} "
                "that are wanted: raise cache_bytes, or want fewer versions"
            )

    def _sizes(self) -> dict[ServableId, int]:
        names = {child.name for child in self.root.iterdir() if child.is_dir() and not child.name.startswith(".")}
        return {one: _bytes(self.path(one)) for name in names for one in self.versions(name)}


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
