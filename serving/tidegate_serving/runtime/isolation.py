"""Where a version runs, after the config that the engine lives by: in this process, or in workers, whose processes it
shares with others or has for itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tidegate_serving.config import BatchingConfig, EngineConfig
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.platforms.platform import PlatformOptions, WarmUpOptions
from tidegate_serving.platforms.version_loader import Elsewhere
from tidegate_serving.runtime.assembly import LiveConfig
from tidegate_serving.workers.gauges import WorkerGauges
from tidegate_serving.workers.load import load_in_workers
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.shared_hosts import SharedHosts
from tidegate_serving.workers.task import WorkerTask
from tidegate_serving.workers.version_workers import Staff

_MOST_SHARED = 4
_PATIENCE_SECONDS = 5.0


class Isolation:
    """Asked whenever a version is to be loaded, so that a reload counts for the next one."""

    def __init__(self, live: LiveConfig, batching: Callable[[str], BatchingConfig]) -> None:
        self._live = live
        self._batching = batching
        self._shared = SharedHosts(
            lambda: live.now.pool_processes or min(_MOST_SHARED, len(os.sched_getaffinity(0))),
            lambda: min(live.now.stuck_seconds, _PATIENCE_SECONDS),
        )
        self.gauges = WorkerGauges()

    def size_for(self, id: ServableId) -> Callable[[int], int]:
        """Says the number of rows that a version's model is given at once where so many wait."""
        return lambda rows: self._batching(id.name).size_for(rows)

    def elsewhere(self, id: ServableId, apart: bool) -> Elsewhere | None:
        """What loads a version outside this process; None for one that runs here. `apart` says where it runs if the
        config leaves that open."""
        isolation = self._live.now.isolation_of(id.name)
        if isolation == "auto":
            isolation = "pool" if apart else "engine"
        if isolation == "engine":
            return None

        def load(manifest: Manifest, directory: Path) -> LoadedVersion:
            batching, options = self._batching(id.name), platform_options(self._live.now)
            task = WorkerTask(directory, manifest.to_bytes().decode(), options, batching.allowed_batch_sizes)
            shared = self._shared if isolation == "pool" else None
            staff = Staff(copies(manifest), self._place(id.name), shared)
            return load_in_workers(id, task, staff, self.gauges)

        def copies(manifest: Manifest) -> int:
            """One for each batch at a time; what is kept of a sequence is in one place."""
            sequences = any(signature.sequences for signature in manifest.signatures.values())
            return 1 if sequences else self._batching(id.name).concurrency

        return Elsewhere(load, copies)

    def _place(self, name: str) -> WorkerPlace:
        now, model = self._live.now, self._live.now.models.get(name)
        if model is None:
            return WorkerPlace(
                memory_bytes=now.worker_memory,
                call_seconds=now.call_seconds,
                output_bytes=now.worker_output_bytes,
            )
        interpreter = sys.executable if model.interpreter is None else str(model.interpreter)
        seconds = now.call_seconds if model.call_seconds is None else model.call_seconds
        return WorkerPlace(interpreter, model.processors, now.worker_memory, seconds, now.worker_output_bytes)


def platform_options(config: EngineConfig) -> PlatformOptions:
    """What the engine's operator allows platforms and sets for them."""
    settings = {
        platform: {key: _text(value) for key, value in table.items()} for platform, table in config.platforms.items()
    }
    warm_up = WarmUpOptions(config.warm_up, config.warm_up_iterations, config.warm_up_batch_sizes)
    return PlatformOptions(config.allow_pickle, settings, warm_up)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
