"""What the manager needs of the map that requests are looked up in; the reconciler fulfils it."""

from __future__ import annotations

from typing import Protocol

from tidegate_serving.contract.servable import ServableId
from tidegate_serving.platforms.loader import Loaded


class ServingMap(Protocol):
    """Versions that requests can be routed to. Swapped whole, so that nobody ever sees half a change."""

    def publish(self, id: ServableId, loaded: Loaded) -> None:
        """Routes to a version, and moves the labels that waited for it in the same instant."""

    def retire(self, id: ServableId) -> None:
        """Routes to it no more; the manager's `released` is called once the last request has left it."""

    def held(self, name: str) -> frozenset[int]:
        """Versions that must stay because a label, or ordinary traffic, waits there for another version."""
