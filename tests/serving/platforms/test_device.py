"""Setting `device` as operators write it, and what a model on a GPU is estimated to need."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.lifecycle.fakes import manifest_of

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import FileEntry
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.platforms.device import Device, device_setting
from tidegate_serving.platforms.memory_need import estimate_on, together
from tidegate_serving.platforms.settings import Settings


def read(**told: str) -> Device:
    return device_setting("onnx", Settings("onnx", told, ("device",)), ("cuda", "tensorrt"))


@pytest.mark.parametrize(
    ("told", "device", "text"),
    [
        ("auto", Device("auto"), "auto"),
        ("cpu", Device("cpu"), "cpu"),
        ("cuda", Device("cuda"), "cuda:0"),
        ("cuda:3", Device("cuda", 3), "cuda:3"),
        ("tensorrt:1", Device("tensorrt", 1), "tensorrt:1"),
    ],
)
def test_a_device_is_read_and_written(told: str, device: Device, text: str) -> None:
    assert read(device=told) == device
    assert str(device) == text


def test_without_a_setting_the_platform_chooses() -> None:
    assert read() == Device("auto")


@pytest.mark.parametrize("told", ["", "gpu", "cuda:", "cuda:-1", "cuda:one", "cuda:\u0663", "CUDA", "cpu:0", "auto:1"])
def test_others_are_refused_with_what_there_is(told: str) -> None:
    with pytest.raises(InvalidInput, match=r"use one of auto, cpu, cuda, cuda:1, tensorrt, tensorrt:1"):
        read(device=told)


def test_what_runs_on_a_gpu_counts_there_and_in_memory() -> None:
    manifest = replace(manifest_of(ServableId("m", 1)), files=(FileEntry("model.onnx", 1000, "0" * 64),))
    assert estimate_on(Device("cpu"), manifest) == {"ram": 1200}
    assert estimate_on(Device("tensorrt", 2), manifest) == {"ram": 1200, "gpu:2": 1200}


def test_needs_are_added_by_device() -> None:
    assert together([{"ram": 1, "gpu:0": 2}, {"ram": 10}, {"gpu:1": 5}]) == {"ram": 11, "gpu:0": 2, "gpu:1": 5}
