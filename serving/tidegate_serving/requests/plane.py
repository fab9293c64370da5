"""The endpoint to the data plane: publishes and retires versions, and moves what belongs to them in the same instant.

The manager and the sources come in; each visit becomes one `apply`, so nobody ever sees half a change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import tidegate_native as native

from tidegate_serving.config import BatchingConfig, EngineConfig, ModelConfig
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.status import Shadow
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.requests.executor import make_executor
from tidegate_serving.requests.limits import Limits
from tidegate_serving.requests.model_traffic import Change, ModelTraffic
from tidegate_serving.requests.settings import plane_batching, plane_description, plane_signature
from tidegate_serving.requests.traffic import Split


class Plane(Protocol):
    """What the endpoint needs of the data plane."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Swaps the serving map once for all changes."""

    def set_limits(self, *, max_message_bytes: int, max_connections: int, request_timeout_ms: int) -> None:
        """What is bounded from now on."""


class BlockWriter(Protocol):
    """Where logged rows go."""

    def describe(self, model: str, version: int, event_time: str | None) -> None:
        """Names the input of a version that carries the time of the event, if there is one."""

    def write(self, block: native.LogBlock) -> None:
        """Writes one block, or raises."""


class Endpoint:
    """A `ServingMap` for the manager and the `Traffic` of the sources.

    `released(name, version)` is called once the last request has left a retired version. Safe from any thread.
    """

    def __init__(
        self, config: EngineConfig, released: Callable[[str, int], None], writer: BlockWriter | None = None
    ) -> None:
        self._config = config
        self._released = released
        self._writer = writer
        self._lock = threading.Lock()
        self._plane: Plane | None = None
        self._models: dict[str, ModelTraffic] = {}
        self._leaving: set[ServableId] = set()
        self._batching: dict[str, BatchingConfig] = {}
        self._limits = Limits.of(config)
        for name, model in config.models.items():
            self._models[name] = replace(self._traffic(name), wanted_labels=dict(model.labels))

    def open(self, plane: Plane) -> None:
        """Everything from now on goes to this plane."""
        with self._lock:
            self._plane = plane
            plane.set_limits(**self._limits.for_plane())
            for name, traffic in self._models.items():
                if changes := traffic.changes_from(ModelTraffic(name)):
                    plane.apply(changes)

    def close(self) -> None:
        """The plane has drained: versions that were leaving, and those that will, are released at once."""
        with self._lock:
            self._plane = None
            leaving, self._leaving = self._leaving, set()
        for gone in leaving:
            self._released(gone.name, gone.version)

    # For the manager

    def publish(self, id: ServableId, loaded: LoadedVersion) -> None:
        """Routes to a version; labels, shadow and logging that waited for it move in the same instant."""
        signatures = [plane_signature(name, signature) for name, signature in loaded.manifest.signatures.items()]
        executor, described = make_executor(loaded), plane_description(loaded)
        if self._writer is not None:
            self._writer.describe(id.name, id.version, loaded.manifest.event_time)
        with self._lock:
            if self._plane is None:
                raise FailedPrecondition(f"the engine is stopping: {id} is not published")
            before = self._traffic(id.name)
            change = native.Publish(
                model=id.name,
                version=id.version,
                signatures=signatures,
                executor=executor,
                batching=plane_batching(self._batching_of(id.name)),
                described=described,
            )
            self._apply(before, replace(before, versions=before.versions | {id.version}), [change])

    def retire(self, id: ServableId) -> None:
        """Routes to a version no more; its labels and its shadow go with it."""
        with self._lock:
            closed = self._plane is None
            if not closed:
                self._leaving.add(id)
                before = self._traffic(id.name)
                change = native.Retire(model=id.name, version=id.version)
                self._apply(before, replace(before, versions=before.versions - {id.version}), [change])
        if closed:
            self._released(id.name, id.version)

    def held(self, name: str) -> frozenset[int]:
        """Versions with a label that waits for another version."""
        with self._lock:
            return self._traffic(name).held

    # For the plane

    def on_released(self, name: str, version: int) -> None:
        """The plane's callback: the last handle of a retired version is gone."""
        with self._lock:
            known = ServableId(name, version) in self._leaving
            self._leaving.discard(ServableId(name, version))
        if known:
            self._released(name, version)

    def log_block(self, block: native.LogBlock) -> None:
        """The plane's callback: writes one block. What it raises counts the block as dropped."""
        if self._writer is not None:
            self._writer.write(block)

    # For the sources

    def set_labels(self, name: str, labels: Mapping[str, int], wanted: Collection[int] | None = None) -> None:
        """The whole wanted label set; each label moves once its version is in the map.

        `wanted` are the versions that may answer requests without version and label while nobody wants a label
        `stable`: the newest of them that is there does, and until one is there they stay where they are. None leaves
        that as it is, at first any version.
        """
        with self._lock:
            before = self._traffic(name)
            meant = before.wanted if wanted is None else frozenset(wanted)
            self._apply(before, replace(before, wanted_labels=dict(labels), wanted=meant), [])

    def set_shadow(self, name: str, shadow: Shadow | None) -> None:
        """The wanted shadow, which begins once its version is in the map."""
        with self._lock:
            before = self._traffic(name)
            self._apply(before, replace(before, wanted_shadow=shadow if shadow and shadow.fraction > 0 else None), [])

    # For operators: each takes effect at once, without a reload, and loses no request

    def set_split(self, name: str, split: Split | None) -> None:
        """Spreads requests that name neither version nor label; None ends it. See `Split` for versions not there."""
        with self._lock:
            before = self._traffic(name)
            self._apply(before, replace(before, wanted_split=split), [])

    def set_enabled(self, name: str, enabled: bool, reason: str) -> None:
        """The kill switch: while off, every request is refused with UNAVAILABLE and the reason; versions stay loaded.

        Holds for versions that come later too. InvalidInput for switching off without a reason.
        """
        if not enabled and not reason:
            raise InvalidInput(f"servable {name!r} cannot be switched off without a reason: say why")
        with self._lock:
            before = self._traffic(name)
            self._apply(before, replace(before, off=None if enabled else reason), [])

    def set_batching(self, name: str, batching: BatchingConfig | None) -> None:
        """Other queue limits and another number of executor threads, for later versions too; None for the config's."""
        with self._lock:
            wanted = batching or self._configured_batching(name)
            if self._plane is not None:
                self._plane.apply([native.SetBatching(model=name, batching=plane_batching(wanted))])
            self._batching[name] = wanted

    def set_log_rate(self, name: str, rate: float | None) -> None:
        """The share of requests that is logged from now on; None for the config's.

        InvalidInput for what is no share, FailedPrecondition where the engine keeps no log.
        """
        if rate is not None and not 0 <= rate <= 1:
            raise InvalidInput(f"the log rate of servable {name!r} is {rate}: use a share from 0 to 1")
        if rate and self._config.log_path is None:
            raise FailedPrecondition(f"servable {name!r} cannot be logged: set log_path, this engine keeps no log")
        with self._lock:
            before = self._traffic(name)
            wanted = self._configured_log_rate(name) if rate is None else rate
            self._apply(before, replace(before, wanted_log=wanted), [])

    def set_limits(self, limits: Limits) -> None:
        """Message size, connections and the deadline of requests without one; what was let in before stays."""
        with self._lock:
            if self._plane is not None:
                self._plane.set_limits(**limits.for_plane())
            self._limits = limits

    def adopt(self, config: EngineConfig) -> None:
        """Defaults come from this config from now on; what was set by hand stays until it is set to None."""
        with self._lock:
            self._config = config

    # For everybody

    def names(self) -> frozenset[str]:
        """Servables that something is known of."""
        with self._lock:
            return frozenset(self._models)

    def split(self, name: str) -> Split | None:
        """The wanted split of a servable, if there is one."""
        with self._lock:
            return self._traffic(name).wanted_split

    def off(self, name: str) -> str | None:
        """Why a servable is switched off; None while it is on."""
        with self._lock:
            return self._traffic(name).off

    def batching(self, name: str) -> BatchingConfig:
        """How a servable's requests are batched now."""
        with self._lock:
            return self._batching_of(name)

    def log_rate(self, name: str) -> float:
        """The share of a servable's requests that is logged."""
        with self._lock:
            return self._traffic(name).wanted_log

    def limits(self) -> Limits:
        """What is bounded now."""
        with self._lock:
            return self._limits

    def ordinary(self, name: str) -> int | None:
        """The version that answers requests without version and label where they are not split."""
        with self._lock:
            return self._traffic(name).ordinary

    def labels(self, name: str) -> dict[str, int]:
        """Where each label of a servable points now."""
        with self._lock:
            return dict(self._traffic(name).labels)

    def shadow(self, name: str) -> Shadow | None:
        """The servable's shadow as it works now."""
        with self._lock:
            return self._traffic(name).shadow

    def _model(self, name: str) -> ModelConfig:
        return self._config.models.get(name, ModelConfig())

    def _traffic(self, name: str) -> ModelTraffic:
        known = self._models.get(name)
        if known is not None:
            return known
        return ModelTraffic(name, wanted_log=self._configured_log_rate(name))

    def _configured_log_rate(self, name: str) -> float:
        rate = self._model(name).log_sampling_rate
        wanted = self._config.log_sampling_rate if rate is None else rate
        return wanted if self._config.log_path is not None else 0.0

    def _batching_of(self, name: str) -> BatchingConfig:
        return self._batching.get(name) or self._configured_batching(name)

    def _configured_batching(self, name: str) -> BatchingConfig:
        return self._model(name).batching or self._config.batching

    def _apply(self, before: ModelTraffic, after: ModelTraffic, changes: list[Change]) -> None:
        """Holds the lock. The new picture counts only once the plane has taken it."""
        after = after.settled()
        changes = [*changes, *after.changes_from(before)]
        if changes and self._plane is not None:
            self._plane.apply(changes)
        self._models[after.model] = after
