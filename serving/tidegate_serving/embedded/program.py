"""What an embedding program wants served: callables and version folders, each name's versions under its control.

A source like any other: it claims its names, tells the reconciler what is desired as a whole, and waits for the result.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tidegate_serving.contract.desired_state import CALLABLE, DesiredState, VersionReference
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError, error_of
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.contract.signature import Signature
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.embedded.callables import CallableLoader, Model, how_to_call
from tidegate_serving.embedded.folders import find_version
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.sources.owners import Owners

NAME = "embedding program"
_SETTLED = (State.AVAILABLE, State.END)
Wanted = Callable[[str], Mapping[ServableId, tuple[State, TidegateError | None]]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an embedding program says what it wants, and where it sees what became of that.

    `wanted`: how the versions that are wanted of a servable stand, as `AspiredVersionsManager.wanted`.
    `unverified`: whether folders without a verdict, and so without a manifest, may be loaded.
    """

    reconciler: Reconciler
    monitor: StateMonitor
    wanted: Wanted
    owners: Owners
    unverified: bool


class Program:
    """Serves, replaces and takes away. Safe from any thread; calls come one after the other."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._versions: dict[str, tuple[VersionReference, ...]] = {}
        self._loaders: dict[VersionReference, CallableLoader] = {}
        self._revisions = itertools.count(1)

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
            named = ServableId(name, self._next(name) if version is None else version)
            inputs = next(iter(signatures.values())).input_names
            made = datetime.now(UTC).isoformat(timespec="seconds")
            loader = CallableLoader(Manifest(named, CALLABLE, dict(signatures), (), made), how_to_call(model, inputs))
            reference = VersionReference(
                named.version, Path(name, str(named.version)), "", CALLABLE, next(self._revisions), unpublished=True
            )
            self._loaders[reference] = loader
            return self._want(name, reference, keep, timeout)

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
        with self._lock:
            found, reference = find_version(path, name, version, platform, self._place.unverified, self._next)
            return self._want(found, replace(reference, revision=next(self._revisions)), keep, timeout)

    def unload(self, name: str, version: int | None = None, timeout: float = 60.0) -> None:
        """Takes one version away, or all of them; returns once its requests are answered and it is unloaded."""
        with self._lock:
            present = self._versions.get(name, ())
            going = [one.version for one in present if version in (None, one.version)]
            if not going:
                what = name if version is None else f"{name}:{version}"
                raise NotFound(f"{what} was not served by this program: it serves {self._names() or 'nothing'}")
            self._tell(replace(self._desired(name), versions=tuple(o for o in present if o.version not in going)))
            self._forget_loaders()
        for number in going:
            self._place.monitor.wait_until(ServableId(name, number), State.END, timeout)

    def loader(self, id: ServableId, reference: VersionReference) -> CallableLoader:
        """The source adapter of callables. NotFound for one that the program has taken away."""
        found = self._loaders.get(reference)
        if found is None:
            raise NotFound(f"{id} is an object that the program serves no more: serve it again")
        return found

    def _next(self, name: str) -> int:
        return max([0, *(change.id.version for change in self._place.monitor.states(name))]) + 1

    def _desired(self, name: str) -> DesiredState:
        return self._place.reconciler.desired(name)

    def _want(self, name: str, version: VersionReference, keep: bool, timeout: float) -> ServableId:
        """Wants a version instead of the others, or beside them; if it cannot be had, everything is as it was."""
        named, present = ServableId(name, version.version), self._versions.get(name, ())
        if any(one.version == named.version for one in present):
            raise InvalidInput(f"{named} is served already: leave the version out, or take it away first")
        self._place.owners.claim(name, NAME)
        before = self._desired(name)
        replaced = () if keep else {one.version for one in present}
        labels = {label: named.version if target in replaced else target for label, target in before.labels.items()}
        deadline = time.monotonic() + timeout
        try:
            self._await_gone(named, timeout)
            self._tell(replace(before, versions=(*(present if keep else ()), version), labels=labels))
            self._settle(named, max(0.0, deadline - time.monotonic()))
        except BaseException:
            self._tell(before)
            raise
        finally:
            self._forget_loaders()
        return named

    def _tell(self, desired: DesiredState) -> None:
        name = desired.servable
        self._versions[name] = desired.versions
        self._place.reconciler.set_desired_state(desired)
        if not desired.versions:
            del self._versions[name]
            self._place.owners.release(name, NAME)

    def _forget_loaders(self) -> None:
        """Once it is certain what is wanted: until then what was before may have to come back."""
        wanted = set(itertools.chain.from_iterable(self._versions.values()))
        self._loaders = {one: loader for one, loader in self._loaders.items() if one in wanted}

    def _await_gone(self, id: ServableId, timeout: float) -> None:
        """What had the number before is unloaded: else it would be kept, being loaded already."""

        def gone() -> bool:
            change = self._place.monitor.state(id)
            return change is None or change.state is State.END

        self._place.monitor.wait_for(gone, timeout, f"what was {id} before is not unloaded")

    def _settle(self, id: ServableId, timeout: float) -> None:
        """What counts is how it stands by what is wanted now; the monitor may still tell of what had its number."""

        def stands() -> tuple[State, TidegateError | None]:
            return self._place.wanted(id.name).get(id, (State.START, None))

        self._place.monitor.wait_for(lambda: stands()[0] in _SETTLED, timeout, f"{id} is not loaded")
        _, error = stands()
        if error is not None:
            raise error_of(error.code, error.message) from error

    def _names(self) -> str:
        return ", ".join(sorted(self._versions))
