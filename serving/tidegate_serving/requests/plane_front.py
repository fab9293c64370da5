"""The front of the data plane: tells it what the reconciler has decided, each time in one `apply`.

Each change is applied as a whole, so no request sees half of it: a label moves in the same instant in which its version
is published.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import tidegate_native as native

from tidegate_serving.config import BatchingConfig, EngineConfig, ModelConfig
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.requests.executor import Executor
from tidegate_serving.requests.limits import Limits
from tidegate_serving.requests.model_traffic import Change, ModelTraffic
from tidegate_serving.requests.settings import plane_batching, plane_description, plane_signature

Publication = Callable[..., native.Publish]


class Plane(Protocol):
    """What the front needs of the data plane."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Swaps the serving map once for all changes."""

    def set_limits(self, *, max_message_bytes: int, max_connections: int, request_timeout_ms: int) -> None:
        """What is bounded from now on."""


class PlaneFront:
    """Safe from any thread. `released(name, version)` is called once the last request has left a retired version."""

    def __init__(self, config: EngineConfig, released: Callable[[str, int], None]) -> None:
        self._config = config
        self._released = released
        self._lock = threading.Lock()
        self._plane: Plane | None = None
        self._models: dict[str, ModelTraffic] = {}
        self._leaving: set[ServableId] = set()
        self._batching: dict[str, BatchingConfig] = {}
        self._log_rates: dict[str, float] = {}
        self._limits = Limits.of(config)

    def open(self, plane: Plane) -> None:
        """Everything from now on goes to this plane, and first of all what was told before."""
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

    # For the reconciler

    def prepare(self, id: ServableId, loaded: LoadedVersion) -> Publication:
        """What `publish` needs; it may take a while, and changes nothing."""
        manifest = loaded.manifest
        signatures = [plane_signature(name, one, manifest.event_time) for name, one in manifest.signatures.items()]
        return partial(
            native.Publish,
            model=id.name,
            version=id.version,
            signatures=signatures,
            executor=Executor(loaded),
            described=plane_description(loaded),
        )

    def publish(self, id: ServableId, publication: Publication, traffic: ModelTraffic) -> None:
        """Routes requests to a version; all that waited for it changes in the same instant."""
        with self._lock:
            if self._plane is None:
                raise FailedPrecondition(f"the engine is stopping: {id} is not published")
            self._apply(traffic, [publication(batching=plane_batching(self._batching_of(id.name)))])

    def retire(self, id: ServableId, traffic: ModelTraffic) -> bool:
        """Routes requests to a version no more; what pointed at it changes in the same instant. False where the plane
        has drained: then the version is released at once, and nothing else changes."""
        with self._lock:
            if self._plane is not None:
                self._leaving.add(id)
                self._apply(traffic, [native.Retire(model=id.name, version=id.version)])
                return True
        self._released(id.name, id.version)
        return False

    def apply(self, traffic: ModelTraffic) -> None:
        """Sends a model's requests elsewhere, among the versions that there are."""
        with self._lock:
            self._apply(traffic, [])

    # For the plane

    def on_released(self, name: str, version: int) -> None:
        """The plane's callback: the last handle of a retired version is gone."""
        with self._lock:
            known = ServableId(name, version) in self._leaving
            self._leaving.discard(ServableId(name, version))
        if known:
            self._released(name, version)

    # For operators: each takes effect at once, without a reload, and loses no request

    def set_batching(self, name: str, batching: BatchingConfig | None) -> None:
        """Other queue limits and another number of executor threads, for later versions too; None for the config's."""
        with self._lock:
            batched = batching or self._configured_batching(name)
            if self._plane is not None:
                self._plane.apply([native.SetBatching(model=name, batching=plane_batching(batched))])
            self._batching[name] = batched

    def set_log_rate(self, name: str, rate: float | None) -> None:
        """The share of requests that is logged from now on; None for the config's.

        InvalidInput for what is no share, FailedPrecondition where the engine keeps no log.
        """
        if rate is not None and not 0 <= rate <= 1:
            raise InvalidInput(f"the log rate of servable {name!r} is {rate}: use a share from 0 to 1")
        if rate and self._config.log_path is None:
            raise FailedPrecondition(f"servable {name!r} cannot be logged: set log_path, this engine keeps no log")
        with self._lock:
            self._log_rates[name] = self._configured_log_rate(name) if rate is None else rate
            self._apply(self._models.get(name, ModelTraffic(name)), [])

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
        """Servables that something was told of."""
        with self._lock:
            return frozenset({*self._models, *self._batching, *self._log_rates})

    def batching(self, name: str) -> BatchingConfig:
        """How a servable's requests are batched now."""
        with self._lock:
            return self._batching_of(name)

    def log_rate(self, name: str) -> float:
        """The share of a servable's requests that is logged."""
        with self._lock:
            return self._log_rate_of(name)

    def limits(self) -> Limits:
        """What is bounded now."""
        with self._lock:
            return self._limits

    def _model(self, name: str) -> ModelConfig:
        return self._config.models.get(name, ModelConfig())

    def _log_rate_of(self, name: str) -> float:
        rate = self._log_rates.get(name)
        return self._configured_log_rate(name) if rate is None else rate

    def _configured_log_rate(self, name: str) -> float:
        rate = self._model(name).log_sampling_rate
        wanted = self._config.log_sampling_rate if rate is None else rate
        return wanted if self._config.log_path is not None else 0.0

    def _batching_of(self, name: str) -> BatchingConfig:
        return self._batching.get(name) or self._configured_batching(name)

    def _configured_batching(self, name: str) -> BatchingConfig:
        return self._model(name).batching or self._config.batching

    def _apply(self, traffic: ModelTraffic, changes: list[Change]) -> None:
        """Holds the lock. The new picture counts only once the plane has taken it."""
        name = traffic.model
        after = replace(traffic, log=self._log_rate_of(name) if traffic.versions else 0.0)
        changes = [*changes, *after.changes_from(self._models.get(name, ModelTraffic(name)))]
        if changes and self._plane is not None:
            self._plane.apply(changes)
        self._models[name] = after
