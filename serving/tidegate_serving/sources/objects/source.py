"""The object store source: a model repository in S3 or the like, served from a verified, bounded cache.

A mirror fills the cache, and a file system source serves the versions in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.files.state import file_error
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.file_system.source import FileSystemOptions, FileSystemSource
from tidegate_serving.sources.file_system.version_policy import parse_version_policy
from tidegate_serving.sources.file_system.watched import WatchOptions
from tidegate_serving.sources.objects.cache import VersionCache
from tidegate_serving.sources.objects.mirror import Mirror
from tidegate_serving.sources.objects.store import ObjectStore
from tidegate_serving.sources.polling import Poller
from tidegate_serving.sources.problems import reported
from tidegate_serving.typed_config import read_config

NAME = "object store"
_ROOT = ""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectStoreOptions:
    """The table `[sources.object_store]`.

    url: a model repository (URL/NAME/VERSION), such as s3://bucket/models.
    cache: the folder that gets copies; it outlives the engine.
    cache_bytes: bound for the versions in it; 0 for none.
    versions: which versions: `latest:N`, `all`, `specific:1,4` or `none`; `models` overrides it by servable.
    poll_seconds: how often the store is looked at; 0 looks once.
    timeout_seconds: a call, or 4 MiB of a file, that takes longer counts as stalled.
    first_seconds: how long the engine's start waits for the first versions to be fetched.
    options: handed to fsspec, such as `endpoint_url`, `key` and `secret` for S3.
    """

    url: str
    cache: Path
    cache_bytes: int = 0
    versions: str = "latest:1"
    poll_seconds: float = 10.0
    timeout_seconds: float = 60.0
    first_seconds: float = 60.0
    models: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for text in (self.versions, *self.models.values()):
            parse_version_policy(text)
        if not self.cache.is_absolute():
            raise InvalidInput(f"cache {self.cache} of the object store is relative: write it from the root")
        if self.timeout_seconds <= 0 or self.cache_bytes < 0 or self.poll_seconds < 0:
            raise InvalidInput("timeout_seconds must be above 0, cache_bytes and poll_seconds 0 or more")


class ObjectStoreSource:
    """A `Source` over an object store. Each servable is fetched and aspired on its own."""

    def __init__(self, options: ObjectStoreOptions, store: ObjectStore, context: SourceContext) -> None:
        self._options = options
        self._problems = context.problems
        self._url = store.url
        cache = VersionCache(options.cache, options.cache_bytes, store.url)
        self._mirror = Mirror(store, cache, context.admission, context.needed)
        self._known: set[str] = set()
        self._listed: frozenset[str] | None = None
        self._poller = Poller(self._look, threads=4)
        self._files = FileSystemSource(
            FileSystemOptions(
                root=cache.root,
                watch=WatchOptions(parse_version_policy(options.versions)),
                overrides={name: WatchOptions(parse_version_policy(text)) for name, text in options.models.items()},
            ),
            context,
            NAME,
        )

    def start(self) -> None:
        """Looks at the store once, for at most `first_seconds`, serves the cache's versions, and goes on looking."""
        deadline = time.monotonic() + self._options.first_seconds
        self._mirror.open()
        self._known |= self._mirror.held_names()
        self._poller.start()
        self._poller.add([_ROOT, *self._known])
        self._poller.wait_idle([_ROOT], self._options.first_seconds)
        if not self._poller.wait_idle(set(self._known), deadline - time.monotonic()):
            _log.warning(
                "not every version could be fetched within %g s, the others go ahead", self._options.first_seconds
            )
        self._files.start()

    def stop(self) -> None:
        """Never calls its target again; fetches in progress are broken off."""
        self._poller.stop()
        self._files.stop()
        self._mirror.close()

    def names(self) -> frozenset[str] | None:
        """The servables in the store; None until it has been listed."""
        return self._listed

    def _look(self, name: str) -> float | None:
        with reported(self._problems, name, self._url, self._unreadable):
            self._discover() if name == _ROOT else self._update(name)
        return self._options.poll_seconds or None

    def _unreadable(self, error: OSError) -> TidegateError:
        return file_error(error, Path(error.filename or self._options.cache))

    def _discover(self) -> None:
        self._listed = frozenset(self._mirror.names())
        found = self._listed - self._known
        self._known |= found
        self._poller.add(found)

    def _update(self, name: str) -> None:
        policy = parse_version_policy(self._options.models.get(name, self._options.versions))
        self._mirror.update(name, policy)


def make_source(table: Mapping[str, Any], context: SourceContext) -> ObjectStoreSource:
    """From the config's table. InvalidInput for a key or value that cannot be, Unsupported without fsspec."""
    options = read_config(ObjectStoreOptions, table, "[sources.object_store]", texts=True)
    return ObjectStoreSource(options, ObjectStore(options.url, options.options, options.timeout_seconds), context)
