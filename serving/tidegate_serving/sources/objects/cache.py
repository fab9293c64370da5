"""The local copies of an object store's versions, in the layout of a model repository and bounded in size.

The mirror puts complete versions in, and the file system source serves them from there. Versions that serve or are
about to are never evicted. A cache belongs to one store, and to one engine at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TextIO

from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, ResourceExhausted, Tampered
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.manifest import FILE_NAME, Manifest
from tidegate_serving.contract.servable import ServableId, is_name, is_version
from tidegate_serving.files import folder_aside, keep, lock, make_folder, remove_folder

_ASIDE = ".fetching"
_GOING = ".going"
MANIFESTS = ".manifests"
STORE_FILE = ".store.json"
LOCK_FILE = ".lock"
_VERSION = "1"


class VersionCache:
    """Version directories ROOT/NAME/VERSION whose files were verified as they came from the store at `url`.

    `most_bytes` 0 is no bound. InvalidInput where the folder holds what came from another store.
    """

    def __init__(self, root: Path, most_bytes: int, url: str) -> None:
        self.root = root
        self._most_bytes = most_bytes
        self._url = url
        self._lock: TextIO | None = None
        self._whole: set[ServableId] = set()
        before = _store(root / STORE_FILE)
        if before not in (None, url):
            raise InvalidInput(
                f"cache {root} holds copies from {before} and cannot take those from {url}: name another folder, or "
                "empty that one"
            )

    def open(self) -> None:
        """Makes the folder and removes what a crash left.

        FailedPrecondition where another engine uses it, else raises as `files.state.keep`.
        """
        make_folder(self.root, "cache")
        self._lock = lock(self.root / LOCK_FILE)
        if self._lock is None:
            raise FailedPrecondition(f"cache {self.root} is used by another engine: name another folder for this one")
        keep(self.root / STORE_FILE, _document(self._url))
        for pattern in (f"*/*{_ASIDE}", f"*/*{_GOING}", f"{MANIFESTS}/*/*{_GOING}"):
            for left in self.root.glob(pattern):
                shutil.rmtree(left)

    def close(self) -> None:
        """Lets another engine use the folder."""
        if self._lock is not None:
            self._lock.close()

    def path(self, id: ServableId) -> Path:
        """Where a version lies, or will."""
        return self.root / id.name / str(id.version)

    def manifest_path(self, id: ServableId) -> Path:
        """The folder for a version's manifest alone, known before its files are."""
        return self.root / MANIFESTS / id.name / str(id.version)

    def holds(self, id: ServableId) -> bool:
        """Whether the complete version is there."""
        return (self.path(id) / FILE_NAME).is_file()

    def names(self) -> frozenset[str]:
        """Servables of which the cache has, or had, a version."""
        with os.scandir(self.root) as entries:
            return frozenset(entry.name for entry in entries if entry.is_dir() and is_name(entry.name))

    def is_whole(self, manifest: Manifest) -> bool:
        """Whether a version's files are as long as its manifest says, which they may not be after a loss of power.

        Checked once per version.
        """
        if manifest.id in self._whole:
            return True
        folder = self.path(manifest.id)
        if any(_size(folder / entry.path) != entry.size for entry in manifest.files):
            return False
        self._whole.add(manifest.id)
        return True

    def versions(self, name: str) -> set[ServableId]:
        """The complete versions of a servable."""
        folder = self.root / name
        if not folder.is_dir():
            return set()
        found = {ServableId(name, int(child.name)) for child in folder.iterdir() if is_version(child.name)}
        return {one for one in found if self.holds(one)}

    def size(self) -> int:
        """Bytes of all complete versions."""
        return sum(self._sizes().values())

    def touch(self, id: ServableId) -> None:
        """Marks a version as used now, so that others are evicted before it; beside it, as a load that is under way
        takes what changes in its folder for another version."""
        stamp = self.manifest_path(id)
        stamp.mkdir(parents=True, exist_ok=True)
        os.utime(stamp)

    @contextlib.contextmanager
    def filling(self, manifest: Manifest, keep: Collection[ServableId]) -> Iterator[Path]:
        """A folder to fetch a version's files into, which becomes the version at the end.

        Room is made first. ResourceExhausted where the versions in `keep` leave too little.
        """
        needed = sum(entry.size for entry in manifest.files) + len(manifest.to_bytes())
        self._make_room(manifest, needed, keep)
        target = self.path(manifest.id)
        with folder_aside(target, _ASIDE) as aside:
            yield aside
            remove_folder(target, _GOING)
        self._whole.add(manifest.id)

    def remove(self, id: ServableId) -> None:
        """Removes a version; its name goes before its files do."""
        self._whole.discard(id)
        for path in (self.path(id), self.manifest_path(id)):
            remove_folder(path, _GOING)

    def _make_room(self, manifest: Manifest, needed: int, keep: Collection[ServableId]) -> None:
        if not self._most_bytes:
            return
        sizes = self._sizes()
        total = sum(sizes.values())
        for oldest in sorted(sizes.keys() - set(keep), key=self._used):
            if total + needed <= self._most_bytes:
                return
            self.remove(oldest)
            total -= sizes[oldest]
        if total + needed > self._most_bytes:
            raise ResourceExhausted(
                f"{manifest.id} needs {needed} bytes in the cache {self.root}, whose {self._most_bytes} hold {total} "
                "that are needed: raise cache_bytes, or serve fewer versions"
            )

    def _used(self, id: ServableId) -> int:
        """When it was touched last, or came."""
        stamp = self.manifest_path(id)
        return (stamp if stamp.is_dir() else self.path(id)).stat().st_mtime_ns

    def _sizes(self) -> dict[ServableId, int]:
        return {one: _bytes(self.path(one)) for name in self.names() for one in self.versions(name)}


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _document(url: str) -> bytes:
    return (json.dumps({"format": f"tidegate.object-cache/{_VERSION}", "url": url}) + "\n").encode()


def _store(path: Path) -> str | None:
    """From which store a cache is, None for a new one."""
    try:
        document = json.loads(path.read_bytes())
        check_format(document, kind="object-cache", version=_VERSION, where=str(path))
        return str(document["url"])
    except FileNotFoundError:
        return None
    except (OSError, *MALFORMED) as error:
        raise Tampered(f"{path} cannot be read ({error}): mend it, or empty the cache {path.parent}") from error
