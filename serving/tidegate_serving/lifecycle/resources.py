"""The memory budget per device: what versions were estimated to need, reserved before a load and given back afterwards.

Only the manager asks, one load decision at a time. A device is a name such as `ram` or `gpu:0`; the estimate becomes
the measured size once a version has loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.platforms.memory_need import RAM


def as_need(id: ServableId, size: int | Mapping[str, int]) -> dict[str, int]:
    """Bytes by device; a plain number is memory of the machine. InvalidInput for a size below zero."""
    need = dict(size) if isinstance(size, Mapping) else {RAM: size}
    for device, count in need.items():
        if count < 0:
            raise InvalidInput(f"{id} says that it needs {count} bytes of {device}: its loader has to say 0 or more")
    return need


class ResourceTracker:
    """Reserves bytes by version and device; a device without a limit, or with 0, has room for everything."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = dict(limits)
        self._reserved: dict[ServableId, Mapping[str, int]] = {}
        self._used: dict[str, int] = {}

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Other budgets from now on; what is reserved stays so."""
        self._limits = dict(limits)

    def used(self, device: str = RAM) -> int:
        """Bytes reserved now."""
        return self._used.get(device, 0)

    def reserved(self, id: ServableId) -> Mapping[str, int]:
        """What one version has reserved, by device."""
        return self._reserved.get(id, {})

    def reserve(self, id: ServableId, need: Mapping[str, int]) -> str:
        """Reserves everything and returns an empty text, or nothing and what is short, with the cure."""
        for device, count in need.items():
            limit = self._limits.get(device, 0)
            if limit and self.used(device) + count > limit:
                return self._shortage(id, device, count, limit)
        self._put(id, need)
        return ""

    def correct(self, id: ServableId, need: Mapping[str, int]) -> None:
        """Replaces what a version has reserved by what it was measured to take, even beyond the budget."""
        self.release(id)
        self._put(id, need)

    def release(self, id: ServableId) -> bool:
        """Gives back what a version had reserved; whether that was anything."""
        gone = self._reserved.pop(id, {})
        for device, count in gone.items():
            self._used[device] -= count
        return any(gone.values())

    def _put(self, id: ServableId, need: Mapping[str, int]) -> None:
        self.release(id)
        self._reserved[id] = need
        for device, count in need.items():
            self._used[device] = self.used(device) + count

    def _shortage(self, id: ServableId, device: str, count: int, limit: int) -> str:
        kind, key = ("memory", "memory_limit_bytes") if device == RAM else (f"{device} memory", "device_limits_bytes")
        return (
            f"insufficient {kind} to load {id}: it needs {count} bytes, {self.used(device)} of {limit} are reserved; "
            f"raise {key} or serve fewer versions"
        )
