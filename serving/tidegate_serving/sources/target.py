"""The aspired-versions call, the one word that sources, routers, adapters and the manager speak with each other.

A source calls its target with everything that it wants live under a name; whatever it leaves out is to be unloaded.
After TensorFlow Serving's `Source`, `Target` and `ServableData`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.servable import ServableId

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class VersionPath:
    """Where a version lies, what the source saw of its manifest, and the revision of the wish that named it.

    `unpublished`: it had no manifest when the source looked; then `manifest_digest` is empty, `platform` is the
    configured one, and no verdict is asked for.
    """

    directory: Path
    manifest_digest: str
    platform: str
    revision: int = 0
    unpublished: bool = False


def manifest_digests(origins: Mapping[ServableId, object]) -> dict[ServableId, str]:
    """The digests of versions that come from a path, by what the manager knows of their origins."""
    return {servable: origin.manifest_digest for servable, origin in origins.items() if isinstance(origin, VersionPath)}


@dataclass(frozen=True, slots=True)
class AspiredVersion(Generic[T_co]):
    """One wanted version: the payload from which it comes to life, or the error that stands in its way.

    `origin` tells one wish from another: a version that failed is tried at once when its origin changes. `content`
    tells what would be loaded: where that changes while the version is on its way, it is loaded anew.
    """

    id: ServableId
    payload: T_co | None
    error: TidegateError | None = None
    origin: object = None
    content: object = None


class Target(Protocol[T_contra]):
    """Takes what a source wants live."""

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[T_contra]]) -> None:
        """The whole wanted set of one servable, idempotent; an empty one unloads all."""


class Source(Protocol):
    """Calls its target whenever what it wants changes, or again with the same."""

    def start(self) -> None:
        """Speaks for the first time before it returns."""

    def stop(self) -> None:
        """Never calls its target again."""
