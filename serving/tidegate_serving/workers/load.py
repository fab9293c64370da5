"""Loads a version into a pool of workers, for the version loader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import Answer, LoadedVersion
from tidegate_serving.workers.pool import WorkerPool
from tidegate_serving.workers.task import WorkerTask


def load_in_workers(id: ServableId, task: WorkerTask, count: int) -> LoadedVersion:
    """The version, loaded and warm in `count` processes. Raises what its load raises, ModelFailed where it ends its
    process."""
    pool = WorkerPool(id, task, count)
    description = pool.load()
    servable = pool if description.definitions is None else _Described(pool, description.definitions)
    return LoadedVersion(description.manifest, servable, {"ram": description.resident_bytes})


class _Described:
    """A pool whose model describes its signatures itself."""

    def __init__(self, pool: WorkerPool, definitions: Any) -> None:
        self._pool = pool
        self._definitions = definitions

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Answer:
        """As the pool."""
        return self._pool.predict(signature, inputs)

    def signature_defs(self) -> Any:
        """A `tensorflow.serving.SignatureDefMap`."""
        return self._definitions

    def close(self) -> None:
        """Ends all workers."""
        self._pool.close()
