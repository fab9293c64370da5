"""Modules on a GPU: answers, the memory they are counted with and give back, and GPUs that are not there."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.models.loading import load_unpublished, outputs, unpublished_loader

from tidegate_serving.contract.errors import InvalidInput

pytestmark = pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")  # PyTorch's own reader
WIDTH = 2048
HELD = 4 * (WIDTH * WIDTH + WIDTH)
ON_GPU = {"torch": {"device": "cuda"}}


class Wide(torch.nn.Module):  # type: ignore[misc]
    """One layer of 16 MiB."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.layer(x)}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "model" / "model.pt2"
    path.parent.mkdir()
    program = torch.export.export(Wide(), (torch.zeros(2, WIDTH),), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, path)
    return path.parent


@pytest.mark.parametrize("settings", [ON_GPU, {}], ids=["told", "auto"])
def test_a_module_answers_from_a_gpu_as_from_the_processor(
    directory: Path, settings: dict[str, dict[str, str]]
) -> None:
    x = np.random.default_rng(1).normal(size=(5, WIDTH)).astype("f4")
    told = outputs(load_unpublished(directory, "torch", settings={"torch": {"device": "cpu"}}), {"x": x})
    version = load_unpublished(directory, "torch", settings=settings)
    np.testing.assert_allclose(outputs(version, {"x": x})["y"], told["y"], rtol=1e-3, atol=1e-3)
    assert version.measured == {"gpu:0": HELD}
    assert torch.cuda.memory_allocated() >= HELD
    version.servable.close()


def test_a_gpu_is_counted_before_the_load_and_given_back_after_it(directory: Path) -> None:
    loader = unpublished_loader(directory, "torch", settings=ON_GPU)
    need = loader.estimate()
    assert HELD <= need["gpu:0"] <= 1.3 * HELD
    before = torch.cuda.memory_allocated()
    loader.load()
    assert torch.cuda.memory_allocated() >= before + HELD
    loader.unload()
    assert torch.cuda.memory_allocated() == before


def test_a_gpu_that_is_not_there_is_named_with_what_is(directory: Path) -> None:
    match = rf"is 'cuda:63', and {torch.cuda.device_count()} such GPUs are here, counted from 0"
    with pytest.raises(InvalidInput, match=match):
        load_unpublished(directory, "torch", settings={"torch": {"device": "cuda:63"}})
