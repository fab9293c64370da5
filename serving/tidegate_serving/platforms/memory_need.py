"""The memory that a version needs, in bytes by device: `ram`, or a GPU such as `gpu:0`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.platforms.device import CPU, Device
from tidegate_serving.platforms.platform import is_added

RAM = "ram"
SIZE_FACTOR = 1.2


def estimate_by_files(manifest: Manifest) -> int:
    """Bytes of a loaded version by the size of its files, without asking its platform: 1.2 times as much, as TensorFlow
    Serving estimates SavedModels."""
    return int(SIZE_FACTOR * sum(entry.size for entry in manifest.files if not is_added(entry.path)))


def estimate_on(device: Device, manifest: Manifest) -> dict[str, int]:
    """The same by device: what runs on a GPU passes through the machine's memory while it loads, and counts twice."""
    size = estimate_by_files(manifest)
    return {RAM: size} if device.kind == CPU else {RAM: size, device.budget: size}


def gpu_need_by_files(gpu: Device | None, manifest: Manifest) -> dict[str, int]:
    """What a version takes of its GPU; nothing of none."""
    return {} if gpu is None else {gpu.budget: estimate_by_files(manifest)}


def together(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several, by device."""
    total: dict[str, int] = {}
    for part in parts:
        for device, count in part.items():
            total[device] = total.get(device, 0) + count
    return total
