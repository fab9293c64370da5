"""Routes each aspired version to the adapter of its platform and hands the whole set on, as loaders.

The reconciler speaks to it; its target is the manager. Versions of one servable may differ in platform, so routing
is by version and the set stays whole. A version without a route travels on with its error and hurts no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.sources.target import AspiredVersion, Target

T = TypeVar("T")
Adapter = Callable[[ServableId, VersionReference], T]


class Router(Generic[T]):
    """A `Target` of references. `route(platform)` gives the adapter, or raises Unsupported for an unknown platform."""

    def __init__(self, route: Callable[[str], Adapter[T]], target: Target[T]) -> None:
        self._route = route
        self._target = target

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[VersionReference]]) -> None:
        """Adapts every version and passes the set on in one call."""
        self._target.set_aspired_versions(name, [self.adapt(version) for version in versions])

    def adapt(self, version: AspiredVersion[VersionReference]) -> AspiredVersion[T]:
        """One version as the target takes it."""
        path = version.payload
        if version.error is not None or path is None:
            return _refused(version.id, version.error)
        try:
            adapter = self._route(path.platform)
        except TidegateError as error:
            return _refused(version.id, error)
        content = path if path.unpublished else replace(path, revision=0)
        return AspiredVersion(version.id, adapter(version.id, path), origin=path, content=content)


def _refused(id: ServableId, error: TidegateError | None) -> AspiredVersion[T]:
    return AspiredVersion(id, None, error, origin=str(error), content=str(error))
