"""One servable that the file system source watches: which versions lie under its base path, complete and admitted.

The file system source asks it at each look. It remembers manifests and what was quiet; who is admitted is asked anew
each time, because keys are revoked and overrides expire.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_serving.admission.admission import Admission
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError, Unavailable
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, read_manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.sources.quiet import QuietPeriod
from tidegate_serving.sources.target import AspiredVersion
from tidegate_serving.sources.version_folder import VersionFolder
from tidegate_serving.sources.version_policy import VersionPolicy

PathVersion = AspiredVersion[VersionReference]
DEFAULT_PLATFORM = "tensorflow"
_SAVED_MODEL = ("saved_model.pb", "saved_model.pbtxt")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What is wanted of a servable and how often it is looked at (seconds, 0 for once).

    `foreign` takes directories without a manifest, of `platform`, once they were quiet for `quiet_seconds`.
    `always_present` keeps the versions of a servable whose last one vanished.
    """

    policy: VersionPolicy = field(default_factory=VersionPolicy)
    poll_seconds: float = 1.0
    foreign: bool = False
    platform: str = DEFAULT_PLATFORM
    quiet_seconds: float = 2.0
    always_present: bool = False


class Watched:
    """Looks at PATH/VERSION, one look at a time.

    For whoever tells what was seen: `turn` is held while telling, `told` is what was told last, `known` says whether
    something is wanted of it now, `gone` that it is watched no more, `waiting` that nothing is wanted of it only
    because a directory is not quiet yet, `emptied` that the last look found nothing any more, `trouble` what the last
    look could not read of what was told before.
    """

    def __init__(self, name: str, path: Path, options: WatchOptions, admission: Admission) -> None:
        self.name = name
        self.options = options
        self.turn = threading.Lock()
        self.known = False
        self.gone = False
        self.waiting = False
        self.emptied = False
        self.trouble: TidegateError | None = None
        self.told: list[PathVersion] | None = None
        self._folder = VersionFolder(path)
        self._admission = admission
        self._quiet = QuietPeriod(options.quiet_seconds)
        self._manifests: dict[Path, tuple[object, Manifest, str]] = {}
        self._missed: list[int] = []

    @property
    def path(self) -> Path:
        """The base path."""
        return self._folder.path

    def retell(self, options: WatchOptions, admission: Admission) -> None:
        """Other options from the next look on; what was complete stays complete."""
        self.options, self._admission = options, admission
        self._quiet.seconds = options.quiet_seconds

    def look(self) -> list[PathVersion]:
        """The versions that are wanted now, newest first, each with what stands in its way where something does.

        NotFound for a base path that is missing, OSError for one that cannot be listed.
        """
        try:
            directories = self._folder.versions()
        except FileNotFoundError as error:
            raise NotFound(
                f"could not find base path {self.path} for servable {self.name!r}, what it last had is kept: create "
                "the folder, or take the servable out of the config"
            ) from error
        self.trouble = None
        self._forget(directories)
        self._say_missing(self.options.policy.missing(directories))
        return self.options.policy.choose(
            directories,
            lambda number: self._version(ServableId(self.name, number), directories[number]),
            lambda version: version.error is None,
        )

    def pause(self) -> float | None:
        """Seconds until the next look, sooner where a directory is about to be quiet; None for no further one."""
        left = self.wait_left()
        if left is None:
            return self.options.poll_seconds or None
        soon = max(left, 0.05)
        return min(soon, self.options.poll_seconds) if self.options.poll_seconds else soon

    def wait_left(self) -> float | None:
        """Seconds until a directory without a manifest can be complete; None where none is waited for."""
        return self._quiet.wait_left()

    def _version(self, id: ServableId, directory: Path) -> PathVersion | None:
        """The version, wanted or with what stands in its way; None where it is not complete."""
        try:
            stamp = _stamp(directory / FILE_NAME)
            if stamp is None and directory.is_symlink():
                directory.stat()
            if stamp is None and self.options.foreign:
                return self._foreign(id, directory)
            return self._published(id, directory, stamp)
        except NotFound:
            return None
        except TidegateError as error:
            return AspiredVersion(id, None, error)
        except OSError as error:
            return self._unreadable(id, directory, error)

    def _unreadable(self, id: ServableId, directory: Path, error: OSError) -> PathVersion:
        """One that was told before is told again, and one that was not hurts no other."""
        for version in self.told or ():
            if version.id == id and version.error is None:
                self.trouble = Unavailable(f"{directory} cannot be read, what {id} was is kept: {error}")
                return version
        cure = "mend it, or remove it"
        return AspiredVersion(id, None, Unavailable(f"{directory} of {id} cannot be read ({error}): {cure}"))

    def _published(self, id: ServableId, directory: Path, stamp: object) -> PathVersion:
        known = self._manifests.get(directory)
        if known is None or known[0] != stamp:
            known = self._manifests[directory] = (stamp, *read_manifest(directory))
        _, manifest, digest = known
        if manifest.id != id:
            raise InvalidInput(f"{directory / FILE_NAME} is for {manifest.id}: publish it under its own name")
        self._admission.check(directory, manifest, digest)
        return AspiredVersion(id, VersionReference(id.version, directory, digest, manifest.platform))

    def _foreign(self, id: ServableId, directory: Path) -> PathVersion | None:
        platform = self.options.platform
        if platform == DEFAULT_PLATFORM and not any((directory / name).is_file() for name in _SAVED_MODEL):
            return None
        state = self._quiet.settled(directory)
        if state is None:
            return None
        return AspiredVersion(id, VersionReference(id.version, directory, "", platform, revision=state, foreign=True))

    def _forget(self, directories: dict[int, Path]) -> None:
        present = set(directories.values())
        self._quiet.keep(present)
        for directory in self._manifests.keys() - present:
            del self._manifests[directory]

    def _say_missing(self, missing: list[int]) -> None:
        if missing and missing != self._missed:
            _log.warning("versions %s of %s are wanted by number and not in %s", missing, self.name, self.path)
        self._missed = missing


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
