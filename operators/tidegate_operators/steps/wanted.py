"""What shall be live of one servable, as a value: versions, labels and tee, and pure ways to change it.

Steps read it from an engine's status, change it, and hand the whole of it back through the RPC Source, which
takes nothing less.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate_serving.contract.errors import DeadlinePassed
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import Aspired, ControlClient, Tee, VersionStatus

STABLE = "stable"
_UNLOAD_SECONDS = 30.0
_ALIVE = (State.START, State.LOADING, State.AVAILABLE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The whole wanted set of one servable. A version that is left out is to be unloaded."""

    servable: str
    versions: tuple[Aspired, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    tee: Tee | None = None

    @property
    def stable(self) -> int | None:
        """The version that ordinary clients get: label `stable`, else the newest; None when nothing is wanted."""
        newest = max((aspired.version for aspired in self.versions), default=None)
        return self.labels.get(STABLE, newest)

    def get(self, version: int) -> Aspired | None:
        """The entry of one version, None when it is not wanted."""
        return next((aspired for aspired in self.versions if aspired.version == version), None)

    def adding(self, aspired: Aspired) -> Wanted:
        """With one version more, and the present default version pinned by label `stable`, so that no ordinary
        request lands on the newcomer."""
        others = tuple(entry for entry in self.versions if entry.version != aspired.version)
        labels = dict(self.labels)
        if others and self.stable is not None:
            labels.setdefault(STABLE, self.stable)
        return replace(self, versions=(*others, aspired), labels=labels)

    def without(self, version: int) -> Wanted:
        """Without one version, its labels and its tee."""
        return replace(
            self,
            versions=tuple(aspired for aspired in self.versions if aspired.version != version),
            labels={label: target for label, target in self.labels.items() if target != version},
            tee=None if self.tee is not None and self.tee.version == version else self.tee,
        )

    def promoting(self, version: int) -> Wanted:
        """Only this version, with label `stable` on it; every other label whose version goes, goes with it."""
        kept = tuple(aspired for aspired in self.versions if aspired.version == version)
        labels = {label: target for label, target in self.labels.items() if target == version}
        return replace(self, versions=kept, labels={**labels, STABLE: version}, tee=None)

    def teeing(self, tee: Tee | None) -> Wanted:
        """With this tee, or with none."""
        return replace(self, tee=tee)


def read_wanted(control: ControlClient, servable: str) -> Wanted:
    """What an engine is asked to keep live of `servable` now; empty when it does not know the name."""
    for status in control.status(servable).servables:
        if status.servable == servable:
            live = [entry for entry in status.versions if _is_wanted(entry)]
            labels = {label: entry.version for entry in live for label in entry.labels}
            tee = status.tee if status.tee is not None and status.tee.version else None
            return Wanted(servable, tuple(_aspired(entry) for entry in live), labels, tee)
    return Wanted(servable)


def give_up(control: ControlClient, wanted: Wanted, version: int, reason: str) -> None:
    """Un-aspires one version and waits until it has unloaded, so that whoever reads next does not see it any more.

    A request that is under way may hold it longer than is worth waiting for; it then ends later, by itself.
    """
    set_wanted(control, wanted.without(version), reason)
    with contextlib.suppress(DeadlinePassed):
        control.wait_until(wanted.servable, version, State.END, _UNLOAD_SECONDS)


def _is_wanted(entry: VersionStatus) -> bool:
    """Alive, or failed and to be tried again: the engine keeps the path of what it has not given up."""
    return entry.state in _ALIVE or (entry.state is State.END and bool(entry.error_code) and bool(entry.path))


def _aspired(entry: VersionStatus) -> Aspired:
    return Aspired(entry.version, Path(entry.path), entry.manifest_digest)


def set_wanted(control: ControlClient, wanted: Wanted, reason: str) -> int:
    """Tells the engine; returns the revision. Raises the engine's refusal, naming the file, before anything changes."""
    return control.set_aspired(
        wanted.servable,
        wanted.versions,
        labels=wanted.labels,
        tee=wanted.tee,
        requested_by="tidegate",
        reason=reason,
    )
