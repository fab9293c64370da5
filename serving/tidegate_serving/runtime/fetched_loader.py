"""Loads a version that came from an object store: where the cache has lost its copy, it is fetched again first."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.platforms.loader import LoadedVersion, Loader
from tidegate_serving.sources.rpc.source import Fetch


class FetchedLoader:
    """A `Loader` around one for a folder. A store that does not answer is an error like any other of a load, which the
    manager tries again."""

    def __init__(self, id: ServableId, version: VersionReference, inner: Loader, fetch: Fetch) -> None:
        self._id = id
        self._version = version
        self._inner = inner
        self._fetch = fetch

    def estimate(self) -> int | Mapping[str, int]:
        """As the inner loader says, 0 where nobody knows before the version is there."""
        try:
            return self._inner.estimate()
        except NotFound:
            return 0

    def load(self) -> LoadedVersion:
        """Fetches what is not there, and loads it."""
        self._fetch(self._version.address, self._id, self._version.manifest_digest)
        return self._inner.load()

    def unload(self) -> None:
        """As the inner loader."""
        self._inner.unload()
