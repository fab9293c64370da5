"""Finds a version of a servable that people name: among those the engine knows, else beside their directories.

Operations and rollback ask; what is found is checked again before it loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    NotFound,
    PermissionRefused,
    TidegateError,
)
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, read_manifest
from tidegate_serving.contract.repository import versions
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.reconciler import Reconciler

Admit = Callable[[Path, Manifest, str], None]


class Locator:
    """`admit` raises where no verdict lets a version in."""

    def __init__(self, reconciler: Reconciler, admit: Admit) -> None:
        self._reconciler = reconciler
        self._admit = admit

    def version(self, name: str, version: int) -> VersionReference:
        """A version by number. NotFound where it is nowhere, NotAdmitted where its directory is not let in."""
        found = self._reconciler.known(name, version)
        return found if found is not None else self._beside(name, version, self._anchor(name))

    def previous(self, name: str) -> VersionReference:
        """What ordinary requests got before: remembered, else the newest version beside the present one that is older
        and let in. FailedPrecondition where nothing serves, NotFound where there is no earlier version."""
        overrides, routing = self._reconciler.overrides(name), self._reconciler.routing(name)
        previous, serving = routing.history.previous(overrides), routing.serving
        if previous is not None:
            return previous
        if serving is None:
            raise FailedPrecondition(f"nothing serves under {name!r}: push a version instead of rolling back")
        folder = serving.directory.parent
        for number in reversed(versions(folder.parent, folder.name)):
            if number < serving.version:
                try:
                    found = self._beside(name, number, serving)
                except TidegateError:
                    continue
                if overrides.block_of(found) is None:
                    return found
        raise NotFound(
            f"{folder} holds no version below {serving.version} that is let in: name the version to go back to"
        )

    def _anchor(self, name: str) -> VersionReference:
        """Any version of the servable, whose directory is known."""
        anchor = self._reconciler.routing(name).serving or next(iter(self._reconciler.desired(name).versions), None)
        if anchor is None:
            raise NotFound(f"no version of {name!r} is known here, so no other can be found: push one first")
        return anchor

    def _beside(self, name: str, version: int, anchor: VersionReference) -> VersionReference:
        directory = anchor.directory.with_name(str(version))
        if not directory.is_dir():
            raise NotFound(f"{directory} is missing: {name}:{version} cannot serve, publish it again")
        if directory.resolve().parent != anchor.directory.resolve().parent:
            raise PermissionRefused(f"{directory} leads elsewhere: push {name}:{version} from where it lies")
        if anchor.unpublished and not (directory / FILE_NAME).exists():
            return replace(anchor, version=version, directory=directory)
        manifest, digest = read_manifest(directory)
        if manifest.id != ServableId(name, version):
            raise InvalidInput(f"{directory / FILE_NAME} is for {manifest.id}: publish it under its own name")
        self._admit(directory, manifest, digest)
        return VersionReference(version, directory, digest, manifest.platform)
