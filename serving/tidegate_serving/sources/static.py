"""The static source: aspires the version directories that the config lists, once when it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.target import AspiredVersion, Target

NAME = "static source"
StaticVersions = Mapping[str, Sequence[AspiredVersion[VersionReference]]]


def read_static(directories: Sequence[Path]) -> StaticVersions:
    """What some version directories mean together, by servable name.

    Raises NotFound where a manifest is missing, InvalidInput where two directories hold the same version.
    """
    versions: dict[str, list[AspiredVersion[VersionReference]]] = {}
    for directory in directories:
        manifest, digest = _read(directory)
        path = VersionReference(manifest.id.version, directory, digest, manifest.platform)
        for known in versions.get(manifest.id.name, []):
            if known.id == manifest.id and known.payload is not None:
                both = f"{known.payload.directory} and {directory}"
                raise InvalidInput(f"{both} are both {manifest.id}: name one of them")
        versions.setdefault(manifest.id.name, []).append(AspiredVersion(manifest.id, path))
    return versions


def _read(directory: Path) -> tuple[Manifest, str]:
    try:
        return read_manifest(directory)
    except NotFound as error:
        raise NotFound(f"directories: {error.message}") from error
    except OSError as error:
        raise InvalidInput(f"directories names {directory}, which cannot be read ({error}): mend the path") from error


class StaticSource:
    """Aspires the versions in some directories, whose manifests say what they are."""

    def __init__(self, versions: StaticVersions, target: Target[VersionReference], owners: Owners) -> None:
        self.versions = versions
        self._target = target
        self._owners = owners

    def start(self) -> None:
        """Calls its target once per servable. FailedPrecondition for one that another source has."""
        for name, aspired in self.versions.items():
            self._owners.claim(name, NAME)
            self._target.set_aspired_versions(name, aspired)

    def give_up(self, versions: StaticVersions) -> None:
        """Takes other versions, and gives up servables of its own that are not among them; `start` aspires the new
        ones."""
        before, self.versions = self.versions, versions
        for name in sorted(before.keys() - versions.keys()):
            if self._owners.owner(name) != NAME:
                continue
            self._target.set_aspired_versions(name, [])
            self._owners.release(name, NAME)

    def stop(self) -> None:
        """It calls its target from `start` alone."""
