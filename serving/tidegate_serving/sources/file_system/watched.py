"""One servable that the file system source watches: which versions lie under its base path, complete and admitted.

Manifests are remembered from look to look. Admission is checked anew each time, because keys are revoked and overrides
expire.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_serving.admission import Admission
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError, Unavailable
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, read_manifest
from tidegate_serving.contract.model_files import recognised_platform
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.sources.file_system.quiet_period import QuietPeriod
from tidegate_serving.sources.file_system.version_folder import VersionFolder
from tidegate_serving.sources.file_system.version_policy import VersionPolicy
from tidegate_serving.sources.target import AspiredVersion

PathVersion = AspiredVersion[VersionReference]
_TENSORFLOW = "tensorflow"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Which versions of a servable are served, and how often its folder is looked at.

    policy: which of the versions that lie there.
    poll_seconds: seconds between two looks; 0 looks once.
    unpublished: takes directories without a manifest too, once nothing in them has changed for `quiet_seconds`.
    platform: that of directories without a manifest; None where their files tell it.
    always_present: keeps the versions of a servable whose last version directory vanished.
    """

    policy: VersionPolicy = field(default_factory=VersionPolicy)
    poll_seconds: float = 1.0
    unpublished: bool = False
    platform: str | None = None
    quiet_seconds: float = 2.0
    always_present: bool = False


class WatchedServable:
    """Looks at PATH/VERSION, one look at a time.

    The source keeps here what it has done with what was seen:
    lock: held while it calls its target.
    aspired: what it has aspired last; None for nothing yet.
    has_versions: whether it has aspired versions.
    dropped: whether it has stopped to watch this servable.
    waiting: whether there are no versions only because a directory is not settled yet.
    was_empty: whether the last look found no version any more.
    fault: why the last look could not read a version that was aspired before.
    """

    def __init__(self, name: str, path: Path, options: WatchOptions, admission: Admission) -> None:
        self.name = name
        self.options = options
        self.lock = threading.Lock()
        self.has_versions = False
        self.dropped = False
        self.waiting = False
        self.was_empty = False
        self.fault: TidegateError | None = None
        self.aspired: list[PathVersion] | None = None
        self._folder = VersionFolder(path)
        self._admission = admission
        self._quiet = QuietPeriod(options.quiet_seconds)
        self._left_out = QuietPeriod(options.quiet_seconds)
        self._said: set[tuple[Path, str]] = set()
        self._manifests: dict[Path, tuple[object, Manifest, str]] = {}
        self._missed: list[int] = []

    @property
    def path(self) -> Path:
        """The base path."""
        return self._folder.path

    def set_options(self, options: WatchOptions, admission: Admission) -> None:
        """Sets other options, from the next look on; what was complete stays complete."""
        self.options, self._admission = options, admission
        self._quiet.seconds = self._left_out.seconds = options.quiet_seconds

    def look(self) -> list[PathVersion]:
        """The versions to aspire now, newest first, each with the error that stands in its way where there is one.

        NotFound for a base path that is missing, OSError for one that cannot be listed.
        """
        try:
            directories = self._folder.versions()
        except FileNotFoundError as error:
            raise NotFound(
                f"could not find base path {self.path} for servable {self.name!r}, what it last had is kept: create "
                "the folder, or take the servable out of the config"
            ) from error
        self.fault = None
        self._forget(directories)
        self._say_missing(self.options.policy.missing(directories))
        return self.options.policy.choose(
            directories,
            lambda number: self._version(ServableId(self.name, number), directories[number]),
            lambda version: version.error is None,
        )

    def pause(self) -> float | None:
        """Seconds until the next look, sooner where a directory is about to be settled; None for no further one."""
        left = self.wait_left()
        if left is None:
            return self.options.poll_seconds or None
        soon = max(left, 0.05)
        return min(soon, self.options.poll_seconds) if self.options.poll_seconds else soon

    def wait_left(self) -> float | None:
        """Seconds until a directory without a manifest can be complete; None where none is waited for."""
        return self._quiet.wait_left()

    def _version(self, id: ServableId, directory: Path) -> PathVersion | None:
        """The version, with the error that stands in its way where there is one; None where it is not complete."""
        try:
            stamp = _stamp(directory / FILE_NAME)
            if stamp is None and directory.is_symlink():
                directory.stat()
            if stamp is None and self.options.unpublished:
                return self._unpublished(id, directory)
            if stamp is None:
                self._leave_out(directory, "set allow_unpublished to serve it as it is")
                return None
            return self._published(id, directory, stamp)
        except NotFound:
            return None
        except TidegateError as error:
            return AspiredVersion(id, None, error)
        except OSError as error:
            return self._unreadable(id, directory, error)

    def _unreadable(self, id: ServableId, directory: Path, error: OSError) -> PathVersion:
        """One that was aspired before stays as it was; one that was not gets an error of its own."""
        for version in self.aspired or ():
            if version.id == id and version.error is None:
                self.fault = Unavailable(f"{directory} cannot be read, what {id} was is kept: {error}")
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

    def _unpublished(self, id: ServableId, directory: Path) -> PathVersion | None:
        found = recognised_platform(directory)
        platform = self.options.platform or found
        if platform is None:
            self._leave_out(directory, f"name what loads it as models.{self.name}.platform")
            return None
        if platform == _TENSORFLOW and found != _TENSORFLOW:
            self._leave_out(directory, "put the saved_model.pb there that it lacks")
            return None
        state = self._quiet.settled(directory)
        if state is None:
            return None
        return AspiredVersion(
            id, VersionReference(id.version, directory, "", platform, revision=state, unpublished=True)
        )

    def _leave_out(self, directory: Path, cure: str) -> None:
        """Says once of a directory that is not written any more why it is not served."""
        if (directory, cure) not in self._said and self._left_out.settled(directory) is not None:
            self._said.add((directory, cure))
            _log.warning(
                "%s has no manifest and is not served: publish it with `tidegate publish`, or %s", directory, cure
            )

    def _forget(self, directories: dict[int, Path]) -> None:
        present = set(directories.values())
        self._quiet.keep(present)
        self._left_out.keep(present)
        self._said = {one for one in self._said if one[0] in present}
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
