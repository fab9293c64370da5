"""Finds the version that an embedding program means by a path: published, or any folder with a model in it.

`Engine.load` hands in the path.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, NotAdmitted, NotFound
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.model_files import recognised_platform
from tidegate_serving.platforms.unpublished import has_manifest


def find_version(
    path: Path,
    name: str | None,
    version: int | None,
    platform: str | None,
    unverified: bool,
    next_version: Callable[[str], int],
) -> tuple[str, VersionReference]:
    """The version at `path`, or the newest below it, and the servable's name. Its manifest names it, else the folders
    do, unless told otherwise; `next_version` numbers one that nothing numbers.

    Raises NotFound for a path that is no folder, InvalidInput where nothing says what kind of model it holds, and
    NotAdmitted for one without a manifest where only verified versions may be loaded.
    """
    directory = _version_folder(path.absolute())
    if has_manifest(directory):
        manifest, digest = read_manifest(directory)
        for what, told, found in (("name", name, manifest.id.name), ("version", version, manifest.id.version)):
            if told not in (None, found):
                raise InvalidInput(f"{directory} was published as {manifest.id}: do not give it {what} {told!r}")
        return manifest.id.name, VersionReference(manifest.id.version, directory, digest, manifest.platform)
    if not unverified:
        raise NotAdmitted(f"{directory} has no manifest, and this engine loads verified versions only: publish it")
    numbered = directory.name.isdigit()
    found_name = name or (directory.parent.name if numbered else directory.name)
    if version is None:
        version = int(directory.name) if numbered else next_version(found_name)
    return found_name, VersionReference(version, directory, "", platform or _guess(directory), unpublished=True)


def _version_folder(path: Path) -> Path:
    if not path.is_dir():
        cure = "name the folder that holds it" if path.exists() else "mend the path"
        raise NotFound(f"{path} is no folder: {cure}")
    if has_manifest(path) or any(entry.is_file() for entry in path.iterdir()):
        return path
    numbered = [entry for entry in path.iterdir() if entry.is_dir() and entry.name.isdigit()]
    if not numbered:
        raise NotFound(f"{path} holds no model and no version folders: mend the path")
    return max(numbered, key=lambda entry: int(entry.name))


def _guess(directory: Path) -> str:
    found = recognised_platform(directory)
    if found is None:
        raise InvalidInput(f"{directory} does not show what kind of model it holds: pass platform=, such as 'onnx'")
    return found
