"""Copies the versions that are to be served from an object store into the cache, complete and verified.

Manifest and verdict are fetched first, and then only the files of versions that are admitted and that the version
policy takes. A version that vanished from the store leaves the cache.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path

from tidegate_serving.admission import Admission
from tidegate_serving.contract.errors import NotAdmitted, NotFound, Tampered, TidegateError
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, read_manifest
from tidegate_serving.contract.servable import ServableId, check_name, is_version
from tidegate_serving.files import write_atomically
from tidegate_serving.sources.context import Needed, needs_nothing
from tidegate_serving.sources.file_system.version_policy import VersionPolicy
from tidegate_serving.sources.objects.cache import VersionCache
from tidegate_serving.sources.objects.store import Child, ObjectStore

_log = logging.getLogger(__name__)


class Mirror:
    """Copies of ROOT/NAME/VERSION. `update` is called by one thread at a time per servable. What is `needed` has its
    copy whatever the version policy takes."""

    def __init__(
        self, store: ObjectStore, cache: VersionCache, admission: Admission, needed: Needed = needs_nothing
    ) -> None:
        self._store = store
        self._cache = cache
        self._admission = admission
        self._needed = needed
        self._stamps: dict[tuple[str, str], tuple[str, ...]] = {}
        self._kept: dict[str, set[ServableId]] = {}
        self._filling = threading.Lock()

    def names(self) -> list[str]:
        """The servables that the store holds."""
        return [child.name for child in self._store.children() if child.is_folder and not child.name.startswith(".")]

    def open(self) -> None:
        """Opens the cache; raises as `VersionCache.open`."""
        self._cache.open()

    def held_names(self) -> frozenset[str]:
        """The servables of which the cache has, or had, a version."""
        return self._cache.names()

    def close(self) -> None:
        """Ends fetches in progress and closes the cache."""
        self._store.close()
        self._cache.close()

    def update(self, name: str, policy: VersionPolicy) -> None:
        """Brings one servable up to date. Raises the error of the newest version that could not be copied.

        Whatever it raises, versions that the cache held and that are still in the store stay.
        """
        check_name(name)
        children = self._store.children(name)
        present = {int(child.name) for child in children if child.is_folder and is_version(child.name)}
        present |= self._drop_vanished(name, present)
        self._copy_documents(name, children)
        faults: list[TidegateError] = []
        chosen = policy.choose(present, lambda number: self._usable(ServableId(name, number), faults), bool)
        wanted = [manifest for manifest in chosen if manifest is not None]
        ids = {manifest.id for manifest in wanted}
        for manifest in wanted:
            self._hold(manifest, ids, faults)
        self._hold_needed(name, ids, present, faults)
        if all(self._cache.holds(one) for one in ids):
            self._kept[name] = ids
        if faults:
            raise faults[0]

    def ready(self, id: ServableId, digest: str) -> Path | None:
        """Where one version lies that needs no store: it is in the cache, whole, with this manifest, and admitted."""
        held = self._held(id) if self._cache.holds(id) else None
        if held is None or held[1] != digest:
            return None
        with contextlib.suppress(NotAdmitted):
            self._admission.check(self._cache.path(id), *held)
            self._cache.touch(id)
            return self._cache.path(id)
        return None

    def bring(self, id: ServableId, digest: str, keep: set[ServableId]) -> Path:
        """Where one version lies that is named with its manifest's SHA-256, fetched unless it is there; the versions in
        `keep` are not evicted for it. NotFound where the store lacks it, Tampered where it has another manifest."""
        self._copy_documents(id.name, self._store.children(id.name))
        manifest, found = self._manifest(id)
        if found != digest and self._cache.holds(id):
            _log.info("the copy of %s in the cache is of other files than the ones named, it is fetched again", id)
            self._cache.remove(id)
            manifest, found = self._manifest(id)
        if found != digest:
            raise Tampered(
                f"{self._store.url}/{id.name}/{id.version}/{FILE_NAME} has SHA-256 {found[:12]}, the push names "
                f"{digest[:12]}: it changed on the way, publish the version again"
            )
        if manifest.id != id:
            raise Tampered(f"{self._store.url}/{id.name}/{id.version} holds {manifest.id}: publish it under that name")
        self._admission.check(self._cache.path(id), manifest, found)
        faults: list[TidegateError] = []
        self._hold(manifest, keep, faults)
        if faults:
            raise faults[0]
        return self._cache.path(id)

    def _usable(self, id: ServableId, faults: list[TidegateError]) -> Manifest | None:
        """The manifest of a version that may serve; None for one that may not or is not complete."""
        try:
            manifest, digest = self._manifest(id)
            self._admission.check(self._cache.path(id), manifest, digest)
        except NotFound:
            return None
        except TidegateError as error:
            faults.append(error)
            return None
        return manifest

    def _manifest(self, id: ServableId) -> tuple[Manifest, str]:
        if self._cache.holds(id):
            held = self._held(id)
            if held is not None:
                return held
            _log.warning("the copy of %s in the cache is not whole, it is fetched again", id)
            self._cache.remove(id)
        folder = self._cache.manifest_path(id)
        write_atomically(folder / FILE_NAME, self._store.read(id.name, str(id.version), FILE_NAME))
        return read_manifest(folder)

    def _held(self, id: ServableId) -> tuple[Manifest, str] | None:
        """The copy in the cache, None where it is broken."""
        try:
            manifest, digest = read_manifest(self._cache.path(id))
        except TidegateError:
            return None
        return (manifest, digest) if self._cache.is_whole(manifest) else None

    def _hold(self, manifest: Manifest, wanted: set[ServableId], faults: list[TidegateError]) -> None:
        """Fetches a version unless it is there; the versions that serve until then are not evicted for it."""
        if self._cache.holds(manifest.id):
            self._cache.touch(manifest.id)
            return
        with self._filling:
            needed = (self._needed_ids(name) for name in self._cache.names())
            keep = wanted.union(*self._kept.values(), *needed)
            try:
                with self._cache.filling(manifest, keep) as folder:
                    self._fetch(manifest, folder)
            except TidegateError as error:
                faults.insert(0, error)
            else:
                _log.info("%s is in the cache: %s", manifest.id, self._cache.path(manifest.id))

    def _hold_needed(self, name: str, wanted: set[ServableId], present: set[int], faults: list[TidegateError]) -> None:
        """Fetches again what a decision has serve and the cache has lost."""
        for needed in sorted(self._needed_ids(name) - wanted, key=lambda one: one.version):
            if needed.version in present and not self._cache.holds(needed):
                manifest = self._usable(needed, faults)
                if manifest is not None:
                    self._hold(manifest, wanted, faults)

    def _needed_ids(self, name: str) -> set[ServableId]:
        """Those that lie in this cache, or did."""
        found = ((ServableId(name, one.version), one.directory) for one in self._needed(name))
        return {servable for servable, directory in found if directory == self._cache.path(servable)}

    def _fetch(self, manifest: Manifest, folder: Path) -> None:
        for entry in manifest.files:
            path = (manifest.id.name, str(manifest.id.version), *entry.path.split("/"))
            self._store.fetch(path, entry, folder / entry.path)
        (self._cache.manifest_path(manifest.id) / FILE_NAME).replace(folder / FILE_NAME)

    def _copy_documents(self, name: str, children: list[Child]) -> None:
        """Copies new and changed verdicts and overrides to where admission looks for them, and removes those that are
        gone, also where they went between two runs."""
        documents = [child for child in children if not child.is_folder and child.name.endswith(".json")]
        for child in documents:
            key = (name, child.name)
            if self._stamps.get(key) != child.stamp or not child.stamp:
                target = self._cache.root / name / child.name
                write_atomically(target, self._store.read(name, child.name))
                self._stamps[key] = child.stamp
        listed = {child.name for child in documents}
        for copy in (self._cache.root / name).glob("*.json"):
            if copy.name not in listed and self._is_gone(name, copy.name):
                copy.unlink(missing_ok=True)
                self._stamps.pop((name, copy.name), None)

    def _drop_vanished(self, name: str, present: set[int]) -> set[int]:
        """Removes versions that are no longer in the store. Numbers of those that its listing left out by mistake."""
        left_out = set()
        for held in self._cache.versions(name):
            if held.version not in present:
                if self._is_gone(name, str(held.version), FILE_NAME):
                    _log.info("%s is no longer in %s and leaves the cache", held, self._store.url)
                    self._cache.remove(held)
                else:
                    _log.warning("%s is in %s, which did not list it", held, self._store.url)
                    left_out.add(held.version)
        return left_out

    def _is_gone(self, *path: str) -> bool:
        """Whether a document is not in the store, whatever its listings say, which may be short or behind."""
        try:
            self._store.read(*path)
        except NotFound:
            return True
        return False
