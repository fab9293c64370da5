"""Stand-ins for the engine's neighbours, stepped by hand: loaders, thread pools, the serving map, the data plane."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference
from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId, StateChange
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.sources.target import AspiredVersion

HALF_PLUS_TWO = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))


def manifest_of(id: ServableId, signature: Signature = HALF_PLUS_TWO) -> Manifest:
    return Manifest(id, "python", {SERVING_DEFAULT: signature}, (), "2026-01-01T00:00:00Z")


class FakeServable:
    """Answers with a function of the inputs."""

    def __init__(self, answer: Callable[[Mapping[str, Any]], Any] | None = None) -> None:
        self._answer = answer or (lambda inputs: {"y": inputs["x"] * np.float32(0.5) + np.float32(2)})
        self.closed = False

    def predict(self, signature: str, inputs: Mapping[str, Any]) -> Any:
        return self._answer(inputs)

    def close(self) -> None:
        self.closed = True


class FakeLoader:
    """Counts what is asked of it; fails as often as it is told, and waits at its gate where it has one."""

    def __init__(
        self,
        id: ServableId,
        *,
        size: int | Mapping[str, int] = 1,
        measured: Mapping[str, int] | None = None,
        failures: int = 0,
        gate: threading.Event | None = None,
    ) -> None:
        self.id = id
        self.size = size
        self.measured = measured or {}
        self.failures = failures
        self.gate = gate
        self.entered = threading.Event()
        self.loads = 0
        self.unloads = 0

    def estimate(self) -> int | Mapping[str, int]:
        return self.size

    def load(self) -> LoadedVersion:
        self.loads += 1
        self.entered.set()
        if self.gate is not None:
            assert self.gate.wait(30)
        if self.failures > 0:
            self.failures -= 1
            raise Unavailable(f"the store of {self.id} is away")
        return LoadedVersion(manifest_of(self.id), FakeServable(), self.measured)

    def unload(self) -> None:
        self.unloads += 1


class StepPool:
    """A thread pool that runs a task when the test says so."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def submit(self, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def run_all(self) -> int:
        """Runs what waits, in order; how many there were."""
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task()
        return len(tasks)


class FakeMap:
    """A serving map that remembers; requests leave a retired version when the test says so."""

    def __init__(self) -> None:
        self.live: dict[ServableId, LoadedVersion] = {}
        self.retired: list[ServableId] = []
        self.held_versions: dict[str, frozenset[int]] = {}
        self.refusal: TidegateError | None = None

    def publish(self, id: ServableId, loaded: LoadedVersion) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.live[id] = loaded

    def retire(self, id: ServableId) -> None:
        del self.live[id]
        self.retired.append(id)

    def held(self, name: str) -> frozenset[int]:
        return self.held_versions.get(name, frozenset())


class FakeClock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class StateLog:
    """Every state change in order, as `(name:version, STATE)`."""

    def __init__(self) -> None:
        self.changes: list[StateChange] = []

    def __call__(self, change: StateChange) -> None:
        self.changes.append(change)

    def of(self, id: ServableId) -> list[str]:
        return [change.state.name for change in self.changes if change.id == id]


class FakeTarget:
    """Remembers what a source wanted, by servable, and every call with versions."""

    def __init__(self) -> None:
        self.wanted: dict[str, list[AspiredVersion[VersionReference]]] = {}
        self.calls: list[tuple[str, list[int]]] = []
        self.label_sets: dict[str, dict[str, int]] = {}
        self.shadows: dict[str, Shadow | None] = {}

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[VersionReference]]) -> None:
        self.wanted[name] = list(versions)
        self.calls.append((name, self.numbers(name)))

    def set_desired_state(self, desired: DesiredState) -> None:
        name = desired.servable
        self.label_sets[name], self.shadows[name] = dict(desired.labels), desired.shadow
        versions = [AspiredVersion(ServableId(name, version.version), version) for version in desired.versions]
        self.set_aspired_versions(name, versions)

    def numbers(self, name: str) -> list[int]:
        return [version.id.version for version in self.wanted.get(name, [])]

    def usable(self, name: str) -> list[int]:
        return [version.id.version for version in self.wanted.get(name, []) if version.error is None]


class FakePlane:
    """A data plane that keeps every `apply`, or refuses it."""

    def __init__(self) -> None:
        self.applied: list[list[str]] = []
        self.refusal: Exception | None = None
        self.limits: list[dict[str, int]] = []

    def set_limits(self, **limits: int) -> None:
        self.limits.append(limits)

    def apply(self, changes: Sequence[Any]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.applied.append([type(change).__name__ for change in changes])
