"""Loads one version directory: admission, verification, platform, warm-up; for the engine and the probe.

The router makes one loader per aspired version, the manager calls it. Each attempt reads the manifest anew, so that a
directory that was mended loads at the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import ModelFailed, Tampered, TidegateError, Unavailable
from tidegate_serving.contract.manifest import Manifest, read_manifest, verify_files
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.words import words_of
from tidegate_serving.files import NO_MORE_OPEN, file_error
from tidegate_serving.platforms.directory_state import DirectoryState
from tidegate_serving.platforms.loader import LoadedVersion, device_bytes
from tidegate_serving.platforms.memory_need import RAM, estimate_by_files
from tidegate_serving.platforms.registry import PlatformRegistry
from tidegate_serving.platforms.unpublished import describe_unpublished, has_manifest
from tidegate_serving.platforms.warm_up.runner import warm_up


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a version is loaded that does not run in this process.

    load: verifies, loads and warms up a directory with a manifest there.
    copies: how many of it there will be.
    """

    load: Callable[[Manifest, Path], LoadedVersion]
    copies: Callable[[Manifest], int]


class VersionLoader:
    """A `Loader` for one version directory.

    admit: raises NotAdmitted for a manifest and its digest where no verdict lets the version in; not called for an
        unpublished path.
    size_for: the number of rows that the engine gives a model at once where so many wait, so that warm-up does too;
        None for just as many.
    verify: raises Tampered where a directory's files differ from its manifest.
    elsewhere: what loads it outside this process; None to do it here.

    Signatures that a manifest lacks are discovered by the platform.
    """

    def __init__(
        self,
        id: ServableId,
        path: VersionReference,
        registry: PlatformRegistry,
        admit: Callable[[Manifest, str], None],
        size_for: Callable[[int], int] | None = None,
        verify: Callable[[Manifest, Path], None] = verify_files,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._id = id
        self._path = path
        self._registry = registry
        self._admit = admit
        self._size_for = size_for
        self._verify = verify if elsewhere is None else lambda manifest, directory: None
        self._elsewhere = elsewhere
        self._loaded: LoadedVersion | None = None

    def estimate(self) -> Mapping[str, int]:
        """Bytes by device as the platform estimates them, by the manifest's list of files. A version that loads outside
        this process counts by its files alone, because what its platform needs may not be here; on a GPU it counts as
        often as there will be copies of it."""
        manifest = self._described() if self._is_bare() else read_manifest(self._path.directory)[0]
        if self._elsewhere is not None:
            copies, need = self._elsewhere.copies(manifest), self._registry.gpu_need(manifest)
            return {RAM: estimate_by_files(manifest)} | {gpu: copies * count for gpu, count in need.items()}
        return self._registry.estimate(self._path.directory, manifest)

    def load(self) -> LoadedVersion:
        """Verifies, loads and warms up. Raises the contract's errors, ModelFailed for whatever the model raised."""
        before = None if self._is_bare() else DirectoryState.of(self._path.directory)
        manifest = self._described() if before is None else self._verified()
        if self._elsewhere is not None:
            self._loaded = self._elsewhere.load(manifest, self._path.directory)
            return self._loaded
        try:
            if not manifest.signatures:
                manifest = self._registry.discover(self._path.directory, manifest).complete(manifest)
            servable = self._registry.load(self._path.directory, manifest)
        except TidegateError:
            raise
        except BaseException as error:
            raise ModelFailed(f"{self._id} cannot be loaded: {words_of(error)}") from error
        self._loaded = LoadedVersion(manifest, servable, device_bytes(servable))
        try:
            options = replace(self._registry.warm_up, size_for=self._size_for)
            warm_up(self._loaded, self._path.directory, options)
            if before is not None:
                before.check(self._path.directory, self._id)
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
        return self._path.unpublished and not has_manifest(self._path.directory)

    def _described(self) -> Manifest:
        return describe_unpublished(self._id, self._path.platform, self._path.directory)

    def _verified(self) -> Manifest:
        manifest, digest = read_manifest(self._path.directory)
        if self._path.unpublished:
            self._verify_files(manifest)
            return replace(manifest, id=self._id)
        if manifest.id != self._id:
            raise Tampered(f"{self._path.directory} holds {manifest.id}, not {self._id}: publish the version again")
        if digest != self._path.manifest_digest:
            raise Tampered(
                f"{self._path.directory / 'manifest.json'} is not the manifest that {self._id} was pushed with "
                f"(SHA-256 {digest[:12]} instead of {self._path.manifest_digest[:12]}): push the version again"
            )
        self._admit(manifest, digest)
        self._verify_files(manifest)
        return manifest

    def _verify_files(self, manifest: Manifest) -> None:
        try:
            self._verify(manifest, self._path.directory)
        except OSError as error:
            # All that there is to say; a traceback in the engine's log would hide it.
            if error.errno in NO_MORE_OPEN:
                raise file_error(error, Path(error.filename or self._path.directory)) from None
            raise Unavailable(
                f"{error.filename or self._path.directory} of {self._id} cannot be read ({error.strerror}): let the "
                "user that the engine runs as read it, or mend the disk"
            ) from None
