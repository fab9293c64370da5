"""The memory budget: what versions were estimated to need, reserved before a load and given back after an unload.

Only the manager asks, one load decision at a time.
"""

from __future__ import annotations

from tidegate_serving.contract.servable import ServableId


class ResourceTracker:
    """Reserves bytes by version; a limit of 0 is none."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._reserved: dict[ServableId, int] = {}

    @property
    def limit(self) -> int:
        """The budget in bytes, 0 for none."""
        return self._limit

    @property
    def used(self) -> int:
        """Bytes reserved now."""
        return sum(self._reserved.values())

    def reserve(self, id: ServableId, size: int) -> bool:
        """True, and reserved, if the budget has room for `size` bytes more."""
        if self._limit and self.used + size > self._limit:
            return False
        self._reserved[id] = size
        return True

    def release(self, id: ServableId) -> None:
        """Gives back what a version had reserved, if anything."""
        self._reserved.pop(id, None)
