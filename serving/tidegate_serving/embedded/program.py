"""What an embedding program wants served: callables and version folders, each name's versions under its control.

A source like any other: it claims its names, speaks to the manager with the whole wanted set, and waits for the result.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tidegate_serving.contract.errors import InvalidInput, NotFound, error_of
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.contract.signature import Signature
from tidegate_serving.embedded.callables import CallableLoader, Model, how_to_call
from tidegate_serving.embedded.folders import find_version
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.platforms.loader import Loader
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.target import AspiredVersion, Target, VersionPath

NAME = "embedding program"
PLATFORM = "callable"
_SETTLED = (State.AVAILABLE, State.END)
Wanted = AspiredVersion[Loader]


class Adapts(Protocol):
    """What makes a loader of a folder."""

    def adapt(self, version: AspiredVersion[VersionPath]) -> Wanted:
        """The same version as the manager takes it."""


class Labels(Protocol):
    """Where labels are set."""

    def labels(self, name: str) -> dict[str, int]:
        """Where each label points now."""

    def set_labels(self, name: str, labels: Mapping[str, int]) -> None:
        """The whole wanted set."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an embedding program's wishes go, and where it sees what became of them.

    `unverified`: whether folders without a verdict, and so without a manifest, may be loaded.
    """

    target: Target[Loader]
    router: Adapts
    monitor: StateMonitor
    labels: Labels
    owners: Owners
    unverified: bool


@dataclass(slots=True)
class _Wish:
    """What is wanted under one name, by version."""

    versions: dict[int, Wanted] = field(default_factory=dict)


class Program:
    """Serves, replaces and takes away. Safe from any thread; calls about one name come one after the other."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._wishes: dict[str, _Wish] = {}

    def serve(
        self,
        name: str,
        model: Model,
        signatures: Mapping[str, Signature],
        *,
        version: int | None = None,
        keep: bool = False,
        timeout: float = 60.0,
    ) -> ServableId:
        """A callable under a name; see `Engine.serve`."""
        with self._lock:
            named = self._next(name, version)
            inputs = next(iter(signatures.values())).input_names
            made = datetime.now(UTC).isoformat(timespec="seconds")
            manifest = Manifest(named, PLATFORM, dict(signatures), (), made)
            loader = CallableLoader(manifest, how_to_call(model, inputs))
            return self._want(AspiredVersion(named, loader, origin=loader), keep, timeout)

    def load(
        self,
        path: Path,
        *,
        name: str | None = None,
        version: int | None = None,
        platform: str | None = None,
        keep: bool = False,
        timeout: float = 600.0,
    ) -> ServableId:
        """A version folder; see `Engine.load`."""
        found = find_version(path, name, version, platform, self._place.unverified)
        with self._lock:
            named = self._next(found.name, found.version)
            made = self._place.router.adapt(AspiredVersion(named, found.path, origin=found.path))
            return self._want(made, keep, timeout)

    def unload(self, name: str, version: int | None = None, timeout: float = 60.0) -> None:
        """Takes one version away, or all of them; returns once its requests are answered and it is unloaded."""
        with self._lock:
            wish = self._wishes.get(name, _Wish())
            going = [number for number in wish.versions if version in (None, number)]
            if not going:
                what = name if version is None else f"{name}:{version}"
                raise NotFound(f"{what} was not served by this program: it serves {self._names() or 'nothing'}")
            left = {number: wanted for number, wanted in wish.versions.items() if number not in going}
            self._say(name, left)
            if not left:
                self._place.owners.release(name, NAME)
        for number in going:
            self._place.monitor.wait_until(ServableId(name, number), State.END, timeout)

    # One wish

    def _next(self, name: str, version: int | None) -> ServableId:
        if version is not None:
            return ServableId(name, version)
        known = [change.id.version for change in self._place.monitor.states(name)]
        return ServableId(name, max([0, *known]) + 1)

    def _want(self, wanted: Wanted, keep: bool, timeout: float) -> ServableId:
        """Wants a version instead of the others, or beside them; if it cannot be had, everything is as it was."""
        name, number = wanted.id.name, wanted.id.version
        before = dict(self._wishes.get(name, _Wish()).versions)
        if number in before:
            raise InvalidInput(f"{wanted.id} is served already: leave the version out, or take it away first")
        self._place.owners.claim(name, NAME)
        labels = self._place.labels.labels(name)
        replaced = set() if keep else set(before)
        moved = {label: number if target in replaced else target for label, target in labels.items()}
        try:
            if moved != labels:
                self._place.labels.set_labels(name, moved)
            self._say(name, {**({} if not keep else before), number: wanted})
            self._settle(wanted.id, timeout)
        except BaseException:
            self._place.labels.set_labels(name, labels)
            self._say(name, before)
            if not before:
                self._place.owners.release(name, NAME)
            raise
        return wanted.id

    def _say(self, name: str, versions: Mapping[int, Wanted]) -> None:
        self._wishes[name] = _Wish(dict(versions))
        self._place.target.set_aspired_versions(name, list(versions.values()))

    def _settle(self, id: ServableId, timeout: float) -> None:
        def settled() -> bool:
            change = self._place.monitor.state(id)
            return change is not None and change.state in _SETTLED

        self._place.monitor.wait_for(settled, timeout, f"{id} is not loaded")
        change = self._place.monitor.state(id)
        if change is not None and change.state is State.END:
            raise error_of(change.error_code, change.error_message or f"{id} ended before it served")

    def _names(self) -> str:
        return ", ".join(name for name, wish in sorted(self._wishes.items()) if wish.versions)

    # As a source

    def start(self) -> None:
        """It speaks when it is told to."""

    def stop(self) -> None:
        """It says nothing by itself."""
