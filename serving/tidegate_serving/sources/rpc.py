"""The RPC Source: a remote client says which versions, labels and shadow a servable should have, and it is made so.

`rpc_server` hands in requests. Each is checked as a whole before anything changes, kept on disk, and then told to the
target and to the traffic rules; after a restart what was told last is told again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tidegate_serving.admission import Admission
from tidegate_serving.contract.errors import Conflict, FailedPrecondition, InvalidInput, PermissionRefused, Tampered
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.servable import ServableId, check_name
from tidegate_serving.control.status import Shadow
from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.journal.journal import Journal
from tidegate_serving.low_priority import verify_at_low_priority
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.rpc_state import WantedVersion, Wish, WishStore
from tidegate_serving.sources.target import AspiredVersion, VersionPath

NAME = "RPC Source"
_log = logging.getLogger(__name__)


class Wishes(Protocol):
    """Where all that is wanted of a servable is told."""

    def propose(
        self,
        name: str,
        versions: Sequence[AspiredVersion[VersionPath]],
        labels: Mapping[str, int],
        shadow: Shadow | None,
    ) -> None:
        """Versions, labels and shadow at once; labels and shadow wait for their version to become AVAILABLE."""


@dataclass(frozen=True, slots=True)
class VersionChecks:
    """What a pushed version has to pass: lie under a root, be of a known platform, be admitted.

    `check_platform` raises Unsupported for an unknown one; `available` says whether this very version serves now, and
    then its files are not read again. `permit` raises where people decided against the change of a servable to these
    versions (number and manifest digest).
    """

    roots: Sequence[Path]
    admission: Admission
    check_platform: Callable[[str], str]
    available: Callable[[ServableId], bool]
    permit: Callable[[str, Mapping[int, str]], None] = lambda name, versions: None


@dataclass(frozen=True, slots=True)
class PushedVersion:
    """One version as a client names it: number, absolute directory, digest of the manifest that it saw."""

    version: int
    path: str
    manifest_digest: str


@dataclass(frozen=True, slots=True)
class Push:
    """One `SetAspired` call. `expected_revision`: the revision that the caller saw, 0 for none yet; None for any."""

    servable: str
    versions: tuple[PushedVersion, ...]
    labels: Mapping[str, int] = field(default_factory=dict)
    shadow: Shadow | None = None
    requested_by: str = ""
    reason: str = ""
    keep_previous: bool = False
    expected_revision: int | None = None


class RpcSource:
    """A `Source` driven by remote calls."""

    def __init__(
        self,
        target: Wishes,
        checks: VersionChecks,
        store: WishStore,
        owners: Owners,
        journal: Journal,
    ) -> None:
        self._target = target
        self._checks = checks
        self._store = store
        self._owners = owners
        self._journal = journal
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}
        self._stopped = False

    def start(self) -> None:
        """Replays what was last told, one servable after the other."""
        with self._lock:
            for name, wish in self._store.all().items():
                if wish.versions:
                    self._owners.claim(name, NAME)
                    self._tell(name, wish)

    def stop(self) -> None:
        """Takes no further call."""
        with self._lock:
            self._stopped = True
        self._store.close()

    def wish(self, name: str) -> Wish | None:
        """What was last told of a servable."""
        return self._store.get(name)

    def names(self) -> list[str]:
        """Servables that something was told of."""
        return sorted(self._store.all())

    def set_aspired(self, push: Push, action: str = "set-aspired", loaded: WantedVersion | None = None) -> int:
        """Accepts a push and returns its revision, or raises and changes nothing.

        `action` is its name in the journal; `loaded` a version of the push that is AVAILABLE now, whose files are not
        read again. Conflict where the servable is not at the revision that the caller expects.
        """
        check_name(push.servable)
        with self._turn(push.servable):
            present = self._store.get(push.servable)
            _check_revision(push, present)
            self._checks.permit(push.servable, {v.version: v.manifest_digest for v in push.versions})
            versions = self._checked(push, present, loaded)
            _check_traffic(push)
            return self._accept(push, versions, present, action)

    def _turn(self, name: str) -> threading.Lock:
        """One push of a servable at a time; reading a large version holds up no other servable."""
        with self._lock:
            return self._turns.setdefault(name, threading.Lock())

    def _accept(self, push: Push, versions: tuple[WantedVersion, ...], present: Wish | None, action: str) -> int:
        with self._lock:
            if self._stopped:
                raise FailedPrecondition("the engine is stopping: push to it again once it is back")
            self._owners.claim(push.servable, NAME)
            wish = Wish(
                revision=present.revision + 1 if present else 1,
                versions=versions,
                labels=dict(push.labels),
                shadow=push.shadow,
                requested_by=push.requested_by,
                reason=push.reason,
                keep_previous=push.keep_previous,
                at_us=time.time_ns() // 1000,
            )
            self._store.put(push.servable, wish)
            self._journal.add(_entry(push.servable, wish, action))
            _log.info("%s: revision %d by %s: %s", push.servable, wish.revision, wish.requested_by, wish.reason)
            self._tell(push.servable, wish)
            if not versions:
                self._owners.release(push.servable, NAME)
        return wish.revision

    def _tell(self, name: str, wish: Wish) -> None:
        versions = [_aspired(name, version, wish) for version in wish.versions]
        self._target.propose(name, versions, wish.labels, wish.shadow)

    def _checked(self, push: Push, present: Wish | None, loaded: WantedVersion | None) -> tuple[WantedVersion, ...]:
        numbers = [version.version for version in push.versions]
        if len(set(numbers)) < len(numbers):
            raise InvalidInput(f"versions of {push.servable!r} are {numbers}: name each once")
        known = {version.version: version for version in (present.versions if present else ())}
        if loaded is not None:
            known[loaded.version] = loaded
        return tuple(
            self._check_version(ServableId(push.servable, pushed.version), pushed, known.get(pushed.version))
            for pushed in push.versions
        )

    def _check_version(self, id: ServableId, pushed: PushedVersion, known: WantedVersion | None) -> WantedVersion:
        if known is not None and self._checks.available(id):
            if (str(Path(known.path).resolve()), known.manifest_digest) != (
                str(Path(pushed.path).resolve()),
                pushed.manifest_digest,
            ):
                raise FailedPrecondition(
                    f"{id} serves now from {known.path} (SHA-256 {known.manifest_digest[:12]}) and cannot be replaced: "
                    "publish under a new version number"
                )
            return known
        directory = self._under_roots(pushed.path)
        manifest, digest = read_manifest(directory)
        if digest != pushed.manifest_digest:
            raise Tampered(
                f"{directory / FILE_NAME} has SHA-256 {digest[:12]}, the push names {pushed.manifest_digest[:12]}: "
                "it changed on the way, publish the version again"
            )
        if manifest.id != id:
            raise InvalidInput(f"{directory / FILE_NAME} is for {manifest.id}, the push names {id}: mend the path")
        self._checks.check_platform(manifest.platform)
        verify_at_low_priority(manifest, directory)
        self._checks.admission.check(directory, manifest, digest)
        return WantedVersion(pushed.version, str(directory), digest, manifest.platform)

    def _under_roots(self, path: str) -> Path:
        directory = Path(path)
        if not directory.is_absolute():
            raise InvalidInput(f"path {path!r} is relative: send the absolute path of the version directory")
        real = directory.resolve()
        if not any(real.is_relative_to(root.resolve()) for root in self._checks.roots):
            roots = ", ".join(str(root) for root in self._checks.roots) or "none"
            raise PermissionRefused(f"{path} lies outside the engine's roots ({roots}): publish under one of them")
        return real


def _check_revision(push: Push, present: Wish | None) -> None:
    revision = present.revision if present else 0
    if push.expected_revision is not None and push.expected_revision != revision:
        by = f", by {present.requested_by}: {present.reason}" if present else ""
        raise Conflict(
            f"{push.servable} is at revision {revision}{by}; this change is for revision {push.expected_revision}: "
            "look at its status again and decide anew"
        )


def _entry(name: str, wish: Wish, action: str) -> Entry:
    versions = ", ".join(str(version.version) for version in sorted(wish.versions, key=lambda v: v.version))
    labels = "".join(f", {label} on {version}" for label, version in sorted(wish.labels.items()))
    shadow = f", shadow of {wish.shadow.fraction:g} to {wish.shadow.version}" if wish.shadow else ""
    text = f"{name} is to have versions {versions or 'none'}{labels}{shadow} (revision {wish.revision})"
    return Entry(Kind.CONTROL, action, text, name, None, wish.requested_by, wish.reason, at_us=wish.at_us)


def _check_traffic(push: Push) -> None:
    numbers = {version.version for version in push.versions}
    for label, version in push.labels.items():
        check_name(label)
        if version not in numbers:
            raise InvalidInput(
                f"label {label!r} names version {version} of {push.servable!r}, which is not among {sorted(numbers)}: "
                "push that version as well"
            )
    if push.shadow is not None and push.shadow.version not in numbers:
        raise InvalidInput(f"the shadow names version {push.shadow.version}, which is not among {sorted(numbers)}")
    if push.shadow is not None and not 0 <= push.shadow.fraction <= 1:
        raise InvalidInput(f"the shadow's fraction is {push.shadow.fraction}: use a share from 0 to 1")


def _aspired(name: str, version: WantedVersion, wish: Wish) -> AspiredVersion[VersionPath]:
    path = VersionPath(Path(version.path), version.manifest_digest, version.platform, wish.revision)
    return AspiredVersion(ServableId(name, version.version), path)
