"""A source that says once what it wants: for embedding programs and for tests.

Takes version directories in its constructor; speaks to its target when started, and again when it is told others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.target import AspiredVersion, Target

NAME = "static source"
StaticWish = Mapping[str, Sequence[AspiredVersion[VersionReference]]]


def read_static(directories: Sequence[Path]) -> StaticWish:
    """What some version directories mean together, by servable name.

    Raises NotFound where a manifest is missing, InvalidInput where two directories hold the same version.
    """
    wanted: dict[str, list[AspiredVersion[VersionReference]]] = {}
    for directory in directories:
        manifest, digest = _read(directory)
        path = VersionReference(manifest.id.version, directory, digest, manifest.platform)
        for known in wanted.get(manifest.id.name, []):
            if known.id == manifest.id and known.payload is not None:
                both = f"{known.payload.directory} and {directory}"
                raise InvalidInput(f"{both} are both {manifest.id}: name one of them")
        wanted.setdefault(manifest.id.name, []).append(AspiredVersion(manifest.id, path))
    return wanted


def _read(directory: Path) -> tuple[Manifest, str]:
    try:
        return read_manifest(directory)
    except OSError as error:
        raise InvalidInput(f"directories names {directory}, which cannot be read ({error}): mend the path") from error


class StaticSource:
    """Wants the versions in some directories; their manifests say what they are."""

    def __init__(self, wanted: StaticWish, target: Target[VersionReference], owners: Owners) -> None:
        self._wanted = wanted
        self._target = target
        self._owners = owners

    def start(self) -> None:
        """Speaks once per servable name."""
        for name, versions in self._wanted.items():
            self._owners.claim(name, NAME)
            self._target.set_aspired_versions(name, versions)

    def give_up(self, wanted: StaticWish) -> None:
        """Wants something else from now on: lets go of what is not among it. `start` says the rest."""
        before, self._wanted = self._wanted, wanted
        for name in before.keys() - wanted.keys():
            self._target.set_aspired_versions(name, [])
            self._owners.release(name, NAME)

    def stop(self) -> None:
        """It has said all it had to say."""
