"""Versions that are pushed by their address in an object store, brought to a cache and verified before they count.

The RPC Source fetches here before it accepts a push; a load fetches again where the cache has lost its copy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate_serving.admission import Admission
from tidegate_serving.contract.errors import InvalidInput, PermissionRefused, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.sources.objects.cache import VersionCache
from tidegate_serving.sources.objects.mirror import Mirror
from tidegate_serving.sources.objects.store import ObjectStore
from tidegate_serving.typed_config import read_config

_TRIES = 3
_FIRST_PAUSE_SECONDS = 0.5
_log = logging.getLogger(__name__)
InUse = Callable[[], Collection[ServableId]]


@dataclass(frozen=True, slots=True)
class PushStoreOptions:
    """A table `[push_stores.NAME]`.

    url: a model repository (URL/NAME/VERSION), such as s3://bucket/models; only what lies below may be pushed.
    cache: the folder that gets copies; it outlives the engine.
    cache_bytes: bound for the versions in it; 0 for none.
    timeout_seconds: a call, or 4 MiB of a file, that takes longer counts as stalled.
    options: handed to fsspec, such as `endpoint_url`, `key` and `secret` for S3.
    """

    url: str
    cache: Path
    cache_bytes: int = 0
    timeout_seconds: float = 60.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.cache.is_absolute():
            raise InvalidInput(f"cache {self.cache} of a push store is relative: write it from the root")
        if self.timeout_seconds <= 0 or self.cache_bytes < 0:
            raise InvalidInput("timeout_seconds must be above 0, cache_bytes 0 or more")


class PushStores:
    """The stores that an engine takes pushes from. `in_use` are versions whose copies must not be evicted.

    Raises InvalidInput for a table that cannot be used, Unsupported without fsspec.
    """

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], admission: Admission, in_use: InUse) -> None:
        self._stores = [_PushStore(_options(name, table), admission, in_use) for name, table in tables.items()]

    def start(self) -> None:
        """Opens the caches. FailedPrecondition where another engine uses one."""
        for store in self._stores:
            store.mirror.open()

    def stop(self) -> None:
        """Breaks off fetches in progress and closes the caches."""
        for store in self._stores:
            store.close()

    def bring(self, address: str, id: ServableId, digest: str) -> Path:
        """Where the version lies that an address and its manifest's SHA-256 name, complete and admitted.

        PermissionRefused for an address below no store, InvalidInput for one that is not of this version; Tampered and
        NotAdmitted as for any version, Unavailable for a store that stalls or fails, also when it is tried again.
        """
        for store in self._stores:
            if address.startswith(f"{store.url}/"):
                if address != f"{store.url}/{id.name}/{id.version}":
                    raise InvalidInput(f"address {address} is not {store.url}/{id.name}/{id.version}: push it as {id}")
                return store.bring(id, digest)
        known = ", ".join(store.url for store in self._stores) or "none"
        raise PermissionRefused(
            f"{address} lies in none of the engine's push_stores ({known}): publish there, or have the engine's "
            "operator add a table [push_stores.NAME]"
        )


class _PushStore:
    """One of them; one fetch at a time."""

    def __init__(self, options: PushStoreOptions, admission: Admission, in_use: InUse) -> None:
        store = ObjectStore(options.url, options.options, options.timeout_seconds)
        self.url = store.url
        self.mirror = Mirror(store, VersionCache(options.cache, options.cache_bytes, store.url), admission)
        self._in_use = in_use
        self._turn = threading.Lock()
        self._stopping = threading.Event()

    def bring(self, id: ServableId, digest: str) -> Path:
        ready = self.mirror.ready(id, digest)
        if ready is not None:
            return ready
        pause = _FIRST_PAUSE_SECONDS
        for _ in range(_TRIES - 1):
            try:
                return self._bring(id, digest)
            except Unavailable as error:
                _log.warning("%s is not fetched yet: %s", id, error.message)
                if self._stopping.wait(pause):
                    raise
                pause *= 2
        return self._bring(id, digest)

    def close(self) -> None:
        self._stopping.set()
        self.mirror.close()

    def _bring(self, id: ServableId, digest: str) -> Path:
        with self._turn:
            return self.mirror.bring(id, digest, {*self._in_use(), id})


def _options(name: str, table: Mapping[str, Any]) -> PushStoreOptions:
    return read_config(PushStoreOptions, table, f"[push_stores.{name}]", texts=True)
