"""Brings one version directory to life: admission, verification, platform, warm-up; for the engine and the probe.

The router makes one per wanted version; the manager calls it; each attempt reads the manifest anew, so a directory that
was mended loads at the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import ModelFailed, Tampered, TidegateError, words_of
from tidegate_serving.contract.manifest import Manifest, read_manifest, verify_files
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.platforms.discovery import completed
from tidegate_serving.platforms.foreign import foreign_manifest, has_manifest
from tidegate_serving.platforms.loader import Loaded
from tidegate_serving.platforms.registry import PlatformRegistry
from tidegate_serving.platforms.warm_up import warm_up


class VersionLoader:
    """A `Loader` for one version directory.

    `admit(manifest, digest)` raises NotAdmitted where no verdict lets the version in; it is not asked about a foreign
    path. Signatures that a manifest lacks are discovered by the platform. `size_for(rows)` is the number of rows that
    the engine asks for at once where so many wait, None for just as many: warm-up asks alike. `verify(manifest,
    directory)` raises Tampered.
    """

    def __init__(
        self,
        id: ServableId,
        path: VersionReference,
        registry: PlatformRegistry,
        admit: Callable[[Manifest, str], None],
        size_for: Callable[[int], int] | None = None,
        verify: Callable[[Manifest, Path], None] = verify_files,
    ) -> None:
        self._id = id
        self._path = path
        self._registry = registry
        self._admit = admit
        self._size_for = size_for
        self._verify = verify
        self._loaded: Loaded | None = None

    def estimate(self) -> int:
        """Bytes as the platform estimates them, by the manifest's list of files."""
        manifest = self._described() if self._is_bare() else read_manifest(self._path.directory)[0]
        return self._registry.estimate(self._path.directory, manifest)

    def load(self) -> Loaded:
        """Verifies, loads and warms up. Raises the contract's errors, ModelFailed for whatever the model raised."""
        manifest = self._described() if self._is_bare() else self._verified()
        try:
            if not manifest.signatures:
                manifest = completed(manifest, self._registry.discover(self._path.directory, manifest))
            servable = self._registry.load(self._path.directory, manifest)
        except TidegateError:
            raise
        except (Exception, SystemExit) as error:
            raise ModelFailed(f"{self._id} cannot be loaded: {words_of(error)}") from error
        self._loaded = Loaded(manifest, servable)
        try:
            options = replace(self._registry.warm_up, size_for=self._size_for)
            warm_up(self._loaded, self._path.directory, options)
        except BaseException:
            self.unload()
            raise
        return self._loaded

    def unload(self) -> None:
        """Closes the servable, if there is one."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.servable.close()

    def _is_bare(self) -> bool:
        return self._path.foreign and not has_manifest(self._path.directory)

    def _described(self) -> Manifest:
        return foreign_manifest(self._id, self._path.platform, self._path.directory)

    def _verified(self) -> Manifest:
        manifest, digest = read_manifest(self._path.directory)
        if self._path.foreign:
            self._verify(manifest, self._path.directory)
            return replace(manifest, id=self._id)
        if manifest.id != self._id:
            raise Tampered(f"{self._path.directory} holds {manifest.id}, not {self._id}: publish the version again")
        if digest != self._path.manifest_digest:
            raise Tampered(
                f"{self._path.directory / 'manifest.json'} is not the manifest that {self._id} was pushed with "
                f"(SHA-256 {digest[:12]} instead of {self._path.manifest_digest[:12]}): push the version again"
            )
        self._admit(manifest, digest)
        self._verify(manifest, self._path.directory)
        return manifest
