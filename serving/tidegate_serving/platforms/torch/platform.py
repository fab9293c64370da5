"""PyTorch models: exported programs (.pt2), TorchScript (.pt), and pickled modules (.pth) only where that is allowed.

Metadata: `torch.file` (default: the only such file). Settings of the engine for this platform: `device` (`auto`, which
is CUDA where present, `cpu`, `cuda`, `cuda:1`), `threads` (0: PyTorch decides). Inputs go by name where the module's
`forward` has arguments of the signature's names, else in the signature's order; outputs likewise from a dict, a tuple
or one tensor. A batch larger than the module was exported for is run in pieces, and a smaller one is filled up; what is
bfloat16 inside is float32 to clients.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import FirstAxis, Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.device import AUTO, CPU, Device, device_setting, gpu_of
from tidegate_serving.platforms.fixed_batch import in_pieces
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.memory_need import estimate_on, gpu_need_by_files
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions, library, model_file
from tidegate_serving.platforms.settings import Settings
from tidegate_serving.platforms.torch.files import TorchModel, exported_signature, read_model

NAME = "torch"
KINDS = ("cuda",)
SUFFIXES = (".pt2", ".pt", ".pth")


class TorchPlatform:
    """Loads a module onto a device."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options
        self._settings = Settings(NAME, options.settings.get(NAME, {}), ("device", "threads"))
        self._device = device_setting(NAME, self._settings, KINDS)

    @property
    def gpu(self) -> Device | None:
        """What the setting means, also where this environment has no PyTorch."""
        return gpu_of(self._device)

    def gpu_need(self, manifest: Manifest) -> Mapping[str, int]:
        """By the files' size."""
        return gpu_need_by_files(self.gpu, manifest)

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """Inputs and outputs of an exported program; TorchScript knows no shapes, so it needs a written signature."""
        torch = _import_torch()
        path = model_file(manifest, directory, "torch.file", SUFFIXES)
        return exported_signature(torch, path)

    def estimate(self, directory: Path, manifest: Manifest) -> dict[str, int]:
        """Bytes by device: a module on a GPU counts there as well."""
        return estimate_on(_chosen(_import_torch(), self._device), manifest)

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A module on its device, whose inputs are checked against the signatures."""
        torch = _import_torch()
        threads = self._settings.whole_number("threads", 0)
        if threads:
            torch.set_num_threads(threads)
        path = model_file(manifest, directory, "torch.file", SUFFIXES)
        device = _chosen(torch, self._device)
        model = read_model(torch, path, torch.device(str(device)), allow_pickle=self._options.allow_pickle)
        return TorchServable(torch, model, device, manifest)


class TorchServable:
    """Calls the module once per batch, without gradients; PyTorch gives up the GIL meanwhile."""

    def __init__(self, torch: Any, model: TorchModel, device: Device, manifest: Manifest) -> None:
        self._torch = torch
        self._model: TorchModel | None = model
        self._device = torch.device(str(device))
        self._held = {} if device.kind == CPU else {device.budget: model.held}
        self._outputs = {name: [spec.name for spec in sig.outputs] for name, sig in manifest.signatures.items()}
        self._free = {name for name, sig in manifest.signatures.items() if sig.first_axis is FirstAxis.FREE}
        self._arguments = {name: _arguments(manifest, name, sig, model) for name, sig in manifest.signatures.items()}

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Outputs by name, on the CPU."""
        if self._model is None:
            raise InvalidInput("this version is closed")
        fed = {argument: inputs[name] for argument, name in self._arguments[signature].items()}
        run = partial(self._run, self._model, self._outputs[signature])
        if signature in self._free:
            return run(fed)
        if self._model.batch is not None:
            return in_pieces(run, fed, self._model.batch)
        rows = max((len(array) for array in fed.values()), default=0)
        if rows < self._model.least:
            return in_pieces(run, fed, self._model.least)
        if self._model.most is not None and rows > self._model.most:
            return in_pieces(run, fed, self._model.most, padded=self._model.least > 1)
        return run(fed)

    def _run(self, model: TorchModel, names: list[str], fed: Mapping[str, Array]) -> dict[str, Any]:
        with self._torch.inference_mode():
            answer = _by_name(names, model, model.call({name: self._tensor(array) for name, array in fed.items()}))
            return {name: self._array(answer[name]) for name in names if name in answer}

    def device_bytes(self) -> Mapping[str, int]:
        """What its parameters and buffers take of a GPU."""
        return self._held

    def close(self) -> None:
        """Frees the module, whose parts know each other, and the memory that PyTorch keeps on a GPU for later."""
        self._model = None
        gc.collect()
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()

    def _tensor(self, array: Array) -> Any:
        return self._torch.from_numpy(array if array.flags.writeable else array.copy()).to(self._device)

    def _array(self, value: Any) -> Any:
        if not isinstance(value, self._torch.Tensor):
            return np.asarray(value)
        found = value.detach().cpu().resolve_conj().resolve_neg()
        return (found.float() if found.dtype == self._torch.bfloat16 else found).numpy()


def _import_torch() -> Any:
    with library("PyTorch", "torch"):
        import torch
    return torch


def _chosen(torch: Any, device: Device) -> Device:
    """`auto` as what is here: the first GPU, else the processor; others as they are. InvalidInput for a GPU that is not
    here."""
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.kind == AUTO:
        return Device("cuda") if there else Device(CPU)
    if device.kind != CPU and device.number >= there:
        found = (
            f"{there} such GPUs are here, counted from 0: use one of them, or"
            if there
            else "there is no CUDA here: use"
        )
        raise InvalidInput(f"setting 'device' of platform 'torch' is {str(device)!r}, and {found} cpu")
    return device


def _arguments(manifest: Manifest, name: str, signature: Signature, model: TorchModel) -> dict[str, str]:
    """Which input of the signature each of the module's arguments gets."""
    given = [spec for spec in signature.inputs if spec.name != manifest.event_time or spec.name in model.names]
    strings = [spec.name for spec in given if spec.dtype == "string"]
    if strings:
        raise InvalidInput(f"input {strings[0]!r} of {manifest.id} is a string, PyTorch takes numbers only")
    names = [spec.name for spec in given]
    if set(model.required) <= set(names) <= set(model.names):
        return {argument: argument for argument in model.names if argument in names}
    if not len(model.required) <= len(names) <= len(model.names):
        raise InvalidInput(
            f"the module of {manifest.id} takes {', '.join(model.names) or 'nothing'}, signature {name!r} has "
            f"{', '.join(names)}: mend the signature"
        )
    return dict(zip(model.names, names, strict=False))


def _by_name(names: list[str], model: TorchModel, answer: Any) -> dict[str, Any]:
    if isinstance(answer, Mapping):
        return {str(name): value for name, value in answer.items()}
    values = answer if isinstance(answer, tuple | list) else [answer]
    if set(names) <= set(model.outputs):
        return dict(zip(model.outputs, values, strict=False))
    if len(values) < len(names):
        raise ModelFailed(f"the module answered with {len(values)} tensors, its signature says {', '.join(names)}")
    return dict(zip(names, values, strict=False))
