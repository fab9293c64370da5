"""The aspired-versions call, which sources, the reconciler, the router and the manager pass on to each other.

A source calls its target with everything that it wants live under a name; whatever it leaves out is to be unloaded.
After TensorFlow Serving's `Source`, `Target` and `ServableData`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.servable import ServableId

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class AspiredVersion(Generic[T_co]):
    """One version that should be loaded: the payload from which it is, or the error that stands in its way.

    A version that failed is tried at once when its `origin` changes. `content` tells what would be loaded: where that
    changes while the version is on its way, it is loaded anew.
    """

    id: ServableId
    payload: T_co | None
    error: TidegateError | None = None
    origin: object = None
    content: object = None


class Target(Protocol[T_contra]):
    """Takes what a source wants live."""

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[T_contra]]) -> None:
        """All versions of one servable that should be loaded, idempotent; an empty set unloads all."""


class Source(Protocol):
    """Calls its target whenever what it wants changes, or again with the same."""

    def start(self) -> None:
        """Speaks for the first time before it returns."""

    def stop(self) -> None:
        """Never calls its target again."""
