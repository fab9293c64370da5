"""Where a model is run: setting `device` of platforms that can use a GPU, and the budget that it counts against."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.settings import Settings

AUTO, CPU = "auto", "cpu"


@dataclass(frozen=True, slots=True)
class Device:
    """A device as an operator writes it: `auto`, `cpu`, or a kind with the GPU's number, such as `cuda:1`."""

    kind: str
    number: int = 0

    @property
    def budget(self) -> str:
        """The name of its memory in `device_limits_bytes`."""
        return f"gpu:{self.number}"

    def __str__(self) -> str:
        return self.kind if self.kind in (AUTO, CPU) else f"{self.kind}:{self.number}"


def device_setting(platform: str, settings: Settings, kinds: Sequence[str]) -> Device:
    """Setting `device`, by default `auto`. InvalidInput for one that is neither `auto`, `cpu` nor of the kinds."""
    told = settings.text("device", AUTO)
    if told in (AUTO, CPU):
        return Device(told)
    kind, colon, number = told.partition(":")
    if kind not in kinds or (colon and not (number.isascii() and number.isdecimal())):
        allowed = ", ".join([AUTO, CPU, *(f"{kind}, {kind}:1" for kind in kinds)])
        raise InvalidInput(f"setting 'device' of platform {platform!r} is {told!r}: use one of {allowed}")
    return Device(kind, int(number or 0))


def gpu_of(device: Device) -> Device | None:
    """The GPU that a setting means, told without any library; None where models run on the processor."""
    if device.kind == AUTO:
        return Device("cuda") if gpu_is_here() else None
    return None if device.kind == CPU else device


def gpu_is_here() -> bool:
    """Whether this machine shows a GPU of NVIDIA's to this process."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and (Path("/dev/dxg").exists() or any(Path("/dev").glob("nvidia[0-9]*")))
