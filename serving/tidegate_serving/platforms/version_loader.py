"""Brings one version directory to life: admission, verification, platform, warm-up; for the engine and the probe.

The router makes one per wanted version; the manager calls it; each attempt reads the manifest anew, so a directory that
was mended loads at the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from tidegate_serving.contract.errors import ModelFailed, Tampered, TidegateError
from tidegate_serving.contract.manifest import Manifest, read_manifest, verify_files
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.discovery import completed
from tidegate_serving.platforms.example import example_inputs
from tidegate_serving.platforms.foreign import foreign_manifest, has_manifest
from tidegate_serving.platforms.loader import Answer, Loaded, Servable
from tidegate_serving.platforms.registry import PlatformRegistry
from tidegate_serving.platforms.tensor_checks import check_outputs
from tidegate_serving.sources.target import VersionPath

_log = logging.getLogger(__name__)


class VersionLoader:
    """A `Loader` for one version directory.

    `admit(manifest, digest)` raises NotAdmitted where no verdict lets the version in; it is not asked about a foreign
    path. Signatures that a manifest lacks are discovered by the platform.
    """

    def __init__(
        self, id: ServableId, path: VersionPath, registry: PlatformRegistry, admit: Callable[[Manifest, str], None]
    ) -> None:
        self._id = id
        self._path = path
        self._registry = registry
        self._admit = admit
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
            raise ModelFailed(f"{self._id} cannot be loaded: {type(error).__name__}: {error}") from error
        self._loaded = Loaded(manifest, servable)
        try:
            warm_up(self._loaded)
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
            verify_files(manifest, self._path.directory)
            return replace(manifest, id=self._id)
        if manifest.id != self._id:
            raise Tampered(f"{self._path.directory} holds {manifest.id}, not {self._id}: publish the version again")
        if digest != self._path.manifest_digest:
            raise Tampered(
                f"{self._path.directory / 'manifest.json'} is not the manifest that {self._id} was pushed with "
                f"(SHA-256 {digest[:12]} instead of {self._path.manifest_digest[:12]}): push the version again"
            )
        self._admit(manifest, digest)
        verify_files(manifest, self._path.directory)
        return manifest


def warm_up(loaded: Loaded) -> None:
    """Runs the manifest's example through every signature that it fits. ModelFailed when the model cannot answer it."""
    manifest = loaded.manifest
    for name, signature in manifest.signatures.items():
        inputs = example_inputs(signature, manifest.example)
        if inputs is None:
            _log.info("%s has no example for signature %s: it is not warmed up", manifest.id, name)
            continue
        try:
            answer = ask(loaded.servable, name, inputs)
        except TidegateError as error:
            raise type(error)(f"{manifest.id} cannot answer its own example: {error}") from error
        for wrong in answer.errors.values():
            raise type(wrong)(f"{manifest.id} cannot answer its own example: {wrong}") from wrong
        check_outputs(manifest.id, signature, 1, answer.outputs)


def ask(servable: Servable, signature: str, inputs: Mapping[str, Array]) -> Answer:
    """A servable's answer, with whatever its code raised as ModelFailed; errors of our family pass as they are."""
    try:
        result = servable.predict(signature, inputs)
    except TidegateError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelFailed(f"the model raised {type(error).__name__}: {error}") from error
    return result if isinstance(result, Answer) else Answer(result)
