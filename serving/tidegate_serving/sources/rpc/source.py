"""The RPC Source: a remote client says which versions, labels and shadow a servable should have, and it is made so.

The control port's server hands in desired states. Each is checked as a whole before anything changes, kept on disk, and
then told; after a restart what was told last is told again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate_serving.admission import Admission
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import Conflict, FailedPrecondition, InvalidInput, PermissionRefused, Tampered
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.repository import check_path
from tidegate_serving.contract.servable import ServableId, check_name
from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.journal.journal import Journal
from tidegate_serving.low_priority import verify_at_low_priority
from tidegate_serving.sources.expiry import REQUESTED_BY, Ends, is_over, no_end, now_us, why_over
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.rpc.store import DesiredStateStore

NAME = "RPC Source"
MOST_LABELS = 1000
_log = logging.getLogger(__name__)
Tell = Callable[[DesiredState], None]
Fetch = Callable[[str, ServableId, str], Path]


def no_stores(address: str, id: ServableId, digest: str) -> Path:
    """For an engine that knows no object store."""
    raise PermissionRefused(f"this engine fetches nothing, so {id} cannot be pushed from {address}: push a folder")


@dataclass(frozen=True, slots=True)
class VersionChecks:
    """What a pushed version has to pass: lie under a root, be of a known platform, be admitted.

    `check_platform` raises Unsupported for an unknown one; `available` says whether this very version serves now, and
    then its files are not read again; `known` is what the engine has under a number, as of a version that it keeps.
    `permit` raises where operators decided against a desired state, given the one before it, `blocked` says whether
    they blocked a version. `fetch` brings the version at an address in an object store, with this manifest digest, to
    a folder.
    """

    roots: Sequence[Path]
    admission: Admission
    check_platform: Callable[[str], str]
    available: Callable[[ServableId], bool]
    permit: Callable[[DesiredState, DesiredState], None] = lambda desired, present: None
    blocked: Callable[[ServableId, VersionReference], bool] = lambda version, reference: False
    fetch: Fetch = no_stores
    known: Callable[[str, int], VersionReference | None] = lambda name, version: None


@dataclass(slots=True)
class _Turns:
    """Who has the lock may push a servable; so many do or wait."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    wanted: int = 0


class RpcSource:
    """A `Source` driven by remote calls; `tell` takes what is accepted, `ends` hears until when a shadow is meant."""

    def __init__(
        self,
        tell: Tell,
        checks: VersionChecks,
        store: DesiredStateStore,
        owners: Owners,
        journal: Journal,
        ends: Ends = no_end,
    ) -> None:
        self._ends = ends
        self._tell = tell
        self._checks = checks
        self._store = store
        self._owners = owners
        self._journal = journal
        self._lock = threading.Lock()
        self._turns: dict[str, _Turns] = {}
        self._stopped = False

    def start(self) -> None:
        """Tells again what was last told, one servable after the other."""
        with self._lock:
            for desired in self._store.all():
                if desired.versions:
                    self._owners.claim(desired.servable, NAME)
                    self._tell(desired)

    def stop(self) -> None:
        """Takes no further call."""
        with self._lock:
            self._stopped = True

    def close(self) -> None:
        """Lets another engine use the state directory, once nothing of this one writes there any more."""
        self._store.close()

    def desired(self, name: str) -> DesiredState | None:
        """What was last told of a servable."""
        return self._store.get(name)

    def names(self) -> list[str]:
        """Servables that something was told of."""
        return sorted(desired.servable for desired in self._store.all())

    def set_desired_state(
        self,
        desired: DesiredState,
        expected_revision: int | None = None,
        action: str = "push",
        loaded: VersionReference | None = None,
        admitted: Collection[str] = (),
    ) -> int:
        """Accepts a desired state and returns its revision, or raises and changes nothing.

        Nothing at all, under a name that nobody ever had, changes nothing, and its revision stays 0.
        `expected_revision` is the revision that the caller saw, 0 for none yet, None for any: Conflict where the
        servable is at another. `action` is its name in the journal; `loaded` a version of it that is AVAILABLE now,
        whose files are not read again; `admitted` are digests of manifests that another engine of the fleet or group
        admitted.
        """
        name = check_name(desired.servable)
        with self._turn(name):
            present = self._store.get(name) or DesiredState(name)
            check_revision(present, expected_revision)
            if not (present.revision or desired.is_anything or self._owners.owner(name)):
                return 0
            self._checks.permit(desired, present)
            self._checks.admission.vouch({one.manifest_digest for one in desired.versions}.intersection(admitted))
            versions = self._checked(desired, present, loaded)
            check_traffic(desired)
            revision, now = present.revision + 1, now_us()
            versions = tuple(replace(version, revision=revision) for version in versions)
            return self._accept(replace(desired, versions=versions, revision=revision, at_us=now), action)

    def end_shadow(self, name: str) -> None:
        """Ends the shadow of a servable whose time is over. FailedPrecondition while it is frozen."""
        with self._turn(name):
            present = self._store.get(name)
            if present is None or present.shadow is None or not is_over(present.shadow.until_us):
                return
            after = replace(
                present,
                shadow=None,
                revision=present.revision + 1,
                requested_by=REQUESTED_BY,
                reason=why_over(present.reason),
                at_us=now_us(),
            )
            self._checks.permit(after, present)
            self._accept(after, "push")

    @contextlib.contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        """One push of a servable at a time; reading a large version holds up no other servable. Of a name that nobody
        pushes now nothing is kept."""
        with self._lock:
            turns = self._turns.setdefault(name, _Turns())
            turns.wanted += 1
        try:
            with turns.lock:
                yield
        finally:
            with self._lock:
                turns.wanted -= 1
                if not turns.wanted:
                    del self._turns[name]

    def _accept(self, desired: DesiredState, action: str) -> int:
        with self._lock:
            if self._stopped:
                raise FailedPrecondition("the engine is stopping: push to it again once it is back")
            self._owners.claim(desired.servable, NAME)
            self._store.put(desired)
            self._journal.add(change_entry(desired, action))
            who = desired.requested_by
            _log.info("%s: revision %d by %s: %s", desired.servable, desired.revision, who, desired.reason)
            self._tell(desired)
            if not desired.versions:
                self._owners.release(desired.servable, NAME)
        if desired.shadow is not None:
            self._ends(desired.servable, desired.shadow.until_us)
        return desired.revision

    def _checked(
        self, desired: DesiredState, present: DesiredState, loaded: VersionReference | None
    ) -> tuple[VersionReference, ...]:
        numbers = [version.version for version in desired.versions]
        if len(set(numbers)) < len(numbers):
            raise InvalidInput(f"versions of {desired.servable!r} are {numbers}: name each once")
        name = desired.servable
        mine = self._owners.owner(name) in ("", NAME)
        kept = [self._checks.known(name, number) for number in numbers if mine]
        known = {one.version: one for one in (*kept, *present.versions, loaded) if one is not None}
        return tuple(
            self._check_version(ServableId(name, version.version), version, known.get(version.version))
            for version in desired.versions
        )

    def _check_version(
        self, id: ServableId, pushed: VersionReference, known: VersionReference | None
    ) -> VersionReference:
        check_path(pushed.directory)
        if known is not None and self._checks.available(id):
            if _place(known) != _place(pushed):
                place, digest = _place(known)
                raise FailedPrecondition(
                    f"{id} serves now from {place} (SHA-256 {digest[:12]}) and cannot be replaced: publish under a new "
                    "version number"
                )
            return known
        if known is not None and _place(known) == _place(pushed) and self._checks.blocked(id, known):
            return known  # it stays beside others and does not load, whatever became of its files and verdict
        if pushed.address:
            directory = self._checks.fetch(pushed.address, id, pushed.manifest_digest)
        else:
            directory = self._under_roots(pushed.directory)
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
        return VersionReference(pushed.version, directory, digest, manifest.platform, address=pushed.address)

    def _under_roots(self, directory: Path) -> Path:
        if not directory.is_absolute():
            raise InvalidInput(f"path '{directory}' is relative: send the absolute path of the version directory")
        real = directory.resolve()
        if not any(real.is_relative_to(root.resolve()) for root in self._checks.roots):
            roots = ", ".join(str(root) for root in self._checks.roots) or "none"
            raise PermissionRefused(
                f"{directory} lies outside the engine's roots ({roots}): publish under one of them, or push the "
                "version by its address in an object store of the engine's push_stores"
            )
        return real


def _place(version: VersionReference) -> tuple[str, str]:
    return version.address or str(version.directory.resolve()), version.manifest_digest


def check_revision(present: DesiredState, expected: int | None) -> None:
    """Conflict where a servable is at another revision than the caller saw, None for any."""
    if expected is not None and expected != present.revision:
        by = f", by {present.requested_by}: {present.reason}" if present.revision else ""
        raise Conflict(
            f"{present.servable} is at revision {present.revision}{by}; this change is for revision {expected}: "
            "look at its status again and decide anew"
        )


def change_entry(desired: DesiredState, action: str) -> Entry:
    """What the journal has of an accepted change."""
    name, shadowed = desired.servable, desired.shadow
    versions = ", ".join(map(str, sorted(desired.numbers)))
    labels = "".join(f", {label} on {version}" for label, version in sorted(desired.labels.items()))
    shadow = f", shadow of {shadowed.fraction:g} to {shadowed.version}" if shadowed else ""
    text = f"{name} is to have versions {versions or 'none'}{labels}{shadow} (revision {desired.revision})"
    return Entry(Kind.CONTROL, action, text, name, None, desired.requested_by, desired.reason, at_us=desired.at_us)


def check_traffic(desired: DesiredState) -> None:
    """InvalidInput where a label or the shadow names a version that is not among those desired, and for more labels
    than anybody can look through."""
    numbers, shadow = sorted(desired.numbers), desired.shadow
    if len(desired.labels) > MOST_LABELS:
        raise InvalidInput(f"{desired.servable!r} is to have {len(desired.labels)} labels: name at most {MOST_LABELS}")
    for label, version in desired.labels.items():
        check_name(label)
        if version not in numbers:
            raise InvalidInput(
                f"label {label!r} names version {version} of {desired.servable!r}, which is not among {numbers}: "
                "push that version as well"
            )
    if shadow is not None and shadow.version not in numbers:
        raise InvalidInput(f"the shadow names version {shadow.version}, which is not among {numbers}")
    if shadow is not None and not 0 <= shadow.fraction <= 1:
        raise InvalidInput(f"the shadow's fraction is {shadow.fraction}: use a share from 0 to 1")
