"""The file system source: looks at a model repository again and again and wants what lies there complete and admitted.

Reads ROOT/NAME/VERSION/manifest.json; tells its target per servable, each polled on its own: one that cannot be read
keeps what it last wanted and holds up no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.servable import MAX_VERSION, ServableId, check_name
from tidegate_serving.sources.admission import Admission
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.target import AspiredVersion, Target, VersionPath
from tidegate_serving.sources.version_policy import VersionPolicy

NAME = "file system source"
_log = logging.getLogger(__name__)
_PathVersion = AspiredVersion[VersionPath]


@dataclass(frozen=True, slots=True)
class RepositoryOptions:
    """Where to look, how often (seconds, 0 for once), and which versions; `policies` by servable name."""

    root: Path
    poll_seconds: float = 1.0
    policy: VersionPolicy = field(default_factory=VersionPolicy)
    policies: Mapping[str, VersionPolicy] = field(default_factory=dict)


class FileSystemSource:
    """A `Source` over a model repository; a version is complete when its manifest is there."""

    def __init__(
        self, options: RepositoryOptions, target: Target[VersionPath], admission: Admission, owners: Owners
    ) -> None:
        self._options = options
        self._target = target
        self._admission = admission
        self._owners = owners
        self._known: set[str] = set()
        self._complaints: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Polls once, then on a thread of its own. NotFound where the repository is missing at the start."""
        if not self._options.root.is_dir():
            raise NotFound(f"model repository {self._options.root} is no folder: create it, or mend the path")
        self.poll()
        if self._options.poll_seconds > 0:
            self._thread = threading.Thread(target=self._run, name="tidegate-file-system-source", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends polling."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def poll(self) -> None:
        """Looks at every servable once."""
        try:
            names = self._names()
        except OSError as error:
            self._complain("", f"repository {self._options.root} cannot be listed, what it last held is kept: {error}")
            return
        if not names and self._known:
            self._complain("", f"repository {self._options.root} is suddenly empty, what it last held is kept")
            return
        self._settle("")
        for name in sorted(names | self._known):
            self._guarded(name, self._poll_servable)

    def _run(self) -> None:
        while not self._stop.wait(self._options.poll_seconds):
            try:
                self.poll()
            except Exception:
                _log.exception("a poll of %s failed, the next one tries again", self._options.root)

    def _names(self) -> set[str]:
        names = set()
        for child in self._options.root.iterdir():
            if not child.name.startswith(".") and child.is_dir():
                names.add(child.name)
        return names

    def _guarded(self, name: str, poll: Callable[[str], None]) -> None:
        try:
            poll(name)
        except (OSError, TidegateError) as error:
            self._complain(name, f"servable {name!r} cannot be read, what it last had is kept: {error}")
        else:
            self._settle(name)

    def _poll_servable(self, name: str) -> None:
        folder = self._options.root / check_name(name)
        directories = _version_directories(folder) if folder.is_dir() else {}
        found = {number: self._look(ServableId(name, number), path) for number, path in directories.items()}
        complete = {number: version for number, version in found.items() if version is not None}
        policy = self._options.policies.get(name, self._options.policy)
        wanted = policy.choose(complete, lambda number: complete[number].error is None)
        if not wanted and name not in self._known:
            return
        self._owners.claim(name, NAME)
        self._known.add(name)
        self._target.set_aspired_versions(name, [complete[number] for number in wanted])
        if not wanted:
            self._known.discard(name)
            self._owners.release(name, NAME)

    def _look(self, id: ServableId, directory: Path) -> _PathVersion | None:
        """The version, wanted or with what stands in its way; None where it is not complete."""
        try:
            manifest, digest = read_manifest(directory)
            if manifest.id != id:
                raise InvalidInput(f"{directory / FILE_NAME} is for {manifest.id}: publish it under its own name")
            self._admission.check(directory, manifest, digest)
        except NotFound:
            return None
        except TidegateError as error:
            return AspiredVersion(id, None, error)
        return AspiredVersion(id, VersionPath(directory, digest, manifest.platform))

    def _complain(self, name: str, text: str) -> None:
        """Warns once, and again when the reason changes."""
        if self._complaints.get(name) != text:
            self._complaints[name] = text
            _log.warning("%s", text)

    def _settle(self, name: str) -> None:
        if self._complaints.pop(name, None) is not None:
            _log.info("%s can be read again", f"servable {name!r}" if name else f"repository {self._options.root}")


def _version_directories(folder: Path) -> dict[int, Path]:
    """Directories with a number for a name; `001` is version 1, and of two that mean the same the plainer counts."""
    found: dict[int, Path] = {}
    for child in sorted(folder.iterdir(), key=lambda child: (len(child.name), child.name), reverse=True):
        if child.name.isascii() and child.name.isdigit() and child.is_dir() and int(child.name) <= MAX_VERSION:
            if int(child.name) in found:
                _log.warning("%s and %s are the same version", found[int(child.name)], child)
            found[int(child.name)] = child
    return found
