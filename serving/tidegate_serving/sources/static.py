"""A source that says once what it wants: for embedding programs and for tests.

Takes version directories in its constructor; speaks to its target when started.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.target import AspiredVersion, Target, VersionPath

NAME = "static source"


class StaticSource:
    """Wants the versions in some directories; their manifests say what they are."""

    def __init__(self, directories: Sequence[Path], target: Target[VersionPath], owners: Owners) -> None:
        self._directories = tuple(directories)
        self._target = target
        self._owners = owners

    def start(self) -> None:
        """Reads every manifest and speaks once per servable name. Raises NotFound where a manifest is missing."""
        wanted: dict[str, list[AspiredVersion[VersionPath]]] = {}
        for directory in self._directories:
            manifest, digest = read_manifest(directory)
            path = VersionPath(directory, digest, manifest.platform)
            wanted.setdefault(manifest.id.name, []).append(AspiredVersion(manifest.id, path))
        for name, versions in wanted.items():
            self._owners.claim(name, NAME)
            self._target.set_aspired_versions(name, versions)

    def stop(self) -> None:
        """It has said all it had to say."""
