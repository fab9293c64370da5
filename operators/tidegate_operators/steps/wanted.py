"""What shall be live of one servable, as a value: versions, labels and shadow, and pure ways to change it.

Steps read it from an engine's status, change it, and hand the whole of it back through the RPC Source, which takes
nothing less, and only where nobody else changed it meanwhile: two releases at once cannot overwrite each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate_serving.contract.errors import Conflict, DeadlinePassed
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import Aspired, ControlClient, Shadow

STABLE = "stable"
REQUESTED_BY = "tidegate"
_UNLOAD_SECONDS = 30.0
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """The whole wanted set of one servable at a revision of the engine's. A version that is left out is to be unloaded.

    `keep_previous`: the version that served before stays loaded, so that a rollback takes effect at once.
    """

    servable: str
    versions: tuple[Aspired, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    shadow: Shadow | None = None
    revision: int = 0
    keep_previous: bool = False

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
        """Without one version, its labels and its shadow."""
        return replace(
            self,
            versions=tuple(aspired for aspired in self.versions if aspired.version != version),
            labels={label: target for label, target in self.labels.items() if target != version},
            shadow=None if self.shadow is not None and self.shadow.version == version else self.shadow,
        )

    def promoting(self, version: int) -> Wanted:
        """Only this version, with label `stable` on it; every other label whose version goes, goes with it."""
        kept = tuple(aspired for aspired in self.versions if aspired.version == version)
        labels = {label: target for label, target in self.labels.items() if target == version}
        return replace(self, versions=kept, labels={**labels, STABLE: version}, shadow=None)

    def keeping(self, previous: bool) -> Wanted:
        """With the version that served before kept loaded, or not."""
        return replace(self, keep_previous=previous)

    def shadowing(self, shadow: Shadow | None) -> Wanted:
        """With this shadow, or with none."""
        return replace(self, shadow=shadow)


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that was accepted: what was wanted before, what is now, and the revision that this made."""

    before: Wanted
    after: Wanted
    revision: int


def read_wanted(control: ControlClient, servable: str) -> Wanted:
    """What an engine is asked to keep live of `servable` now; empty when it does not know the name."""
    status = control.status(servable).servable(servable)
    if status is None:
        return Wanted(servable)
    return Wanted(
        servable,
        tuple(Aspired(one.version, Path(one.path), one.manifest_digest) for one in status.wanted if one.path),
        status.wanted_labels,
        status.shadow if status.shadow is not None and status.shadow.version else None,
        status.revision,
        status.keep_previous,
    )


def change(
    control: ControlClient,
    servable: str,
    edit: Callable[[Wanted], Wanted],
    reason: str,
    requested_by: str = REQUESTED_BY,
) -> Changed:
    """Tells the engine what `edit` makes of what is wanted now; where somebody else was quicker, looks and edits again.

    Raises what `edit` raises, and the engine's refusal, naming the file; then nothing has changed.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(Conflict):
            return _change_once(control, servable, edit, reason, requested_by)
    return _change_once(control, servable, edit, reason, requested_by)


def _change_once(
    control: ControlClient, servable: str, edit: Callable[[Wanted], Wanted], reason: str, requested_by: str
) -> Changed:
    before = read_wanted(control, servable)
    after = edit(before)
    revision = control.set_aspired(
        servable,
        after.versions,
        labels=after.labels,
        shadow=after.shadow,
        requested_by=requested_by,
        reason=reason,
        expected_revision=before.revision,
        keep_previous=after.keep_previous,
    )
    return Changed(before, after, revision)


def give_up(control: ControlClient, servable: str, version: int, reason: str) -> None:
    """Un-aspires one version and waits until it has unloaded, so that whoever reads next does not see it any more.

    A request that is under way may hold it longer than is worth waiting for; it then ends later, by itself.
    """
    change(control, servable, lambda wanted: wanted.without(version), reason)
    with contextlib.suppress(DeadlinePassed):
        control.wait_until(servable, version, State.END, _UNLOAD_SECONDS)
