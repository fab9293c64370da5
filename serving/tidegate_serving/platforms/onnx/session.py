"""Opens a graph with onnxruntime, on the processor or on a GPU.

A session that was to run on a GPU and that onnxruntime put onto the processor instead is refused, unless the operator
left the choice to us (`auto`): what runs many times slower than planned is no answer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.platforms.device import AUTO, CPU, Device, gpu_is_here
from tidegate_serving.platforms.onnx.bfloat16 import in_float32
from tidegate_serving.platforms.platform import is_added, library, thread_count

_NO_TELEMETRY = ("ORT_DISABLE_TELEMETRY", "1")
"""onnxruntime reports to its maker over the network otherwise; read when the library is imported."""

_PROVIDERS = {CPU: "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
KINDS = ("cuda", "tensorrt")


PROCESSOR = Device(CPU)


def open_session(path: Path, manifest: Manifest, device: Device = PROCESSOR, gpu_memory_bytes: int = 0) -> Any:
    """An `InferenceSession`, asked in float32 where a tensor is bfloat16. `gpu_memory_bytes` bounds its arena on the
    GPU; 0 does not.

    InvalidInput for a device that is not here, ModelFailed for a graph that onnxruntime cannot run,
    Unsupported for texts beside bfloat16.
    """
    runtime = _import_onnxruntime()
    device = chosen(device)
    if device.kind != CPU:
        runtime.preload_dlls()  # of CUDA as the registry's wheels bring it, which lies where no linker looks
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = thread_count(manifest, "onnx.threads")
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    weights = _weights_beside(path, manifest)
    if weights:
        options.add_external_initializers_from_files_in_memory(
            list(weights), list(weights.values()), [len(data) for data in weights.values()]
        )
    try:
        session = runtime.InferenceSession(str(path), options, providers=_providers(device, gpu_memory_bytes))
    except Exception as error:
        raise ModelFailed(
            f"{path} is no ONNX model that onnxruntime can run on {device} ({error}): export it anew"
        ) from error
    if _PROVIDERS[device.kind] not in session.get_providers():
        raise ModelFailed(
            f"onnxruntime cannot use {device} for {path}: see whether nvidia-smi shows that GPU, and whether the "
            'libraries of CUDA and cuDNN can be found, or set device = "cpu" in [platforms.onnx]'
        )
    return in_float32(session, path)


def _weights_beside(path: Path, manifest: Manifest) -> dict[str, bytes]:
    """The files in which a graph keeps weights, by the names that it has for them. onnxruntime itself would map them,
    and the process end as soon as somebody cuts one short or writes over it."""
    listed = {entry.path for entry in manifest.files}
    directory = next(folder for folder in path.parents if path.relative_to(folder).as_posix() in listed)
    files = [directory / name for name in listed if not is_added(name)]
    beside = [file for file in files if file != path and file.is_relative_to(path.parent)]
    if not beside:
        return {}
    graph, names = path.read_bytes(), {file.relative_to(path.parent).as_posix(): file for file in beside}
    return {name: file.read_bytes() for name, file in names.items() if name.encode() in graph}


def chosen(device: Device) -> Device:
    """`auto` as what is here: the first GPU where onnxruntime can use one, else the processor; others as they are.
    InvalidInput for a kind that this onnxruntime was built without."""
    runtime = _import_onnxruntime()
    there = runtime.get_available_providers()
    if device.kind == AUTO:
        return Device("cuda") if _PROVIDERS["cuda"] in there and gpu_is_here() else Device(CPU)
    if _PROVIDERS[device.kind] not in there:
        raise InvalidInput(
            f"setting 'device' of platform 'onnx' is {str(device)!r}, and this onnxruntime {runtime.__version__} knows "
            f"the processor only ({', '.join(there)}): install onnxruntime-gpu in its place, or use cpu"
        )
    return device


def _providers(device: Device, gpu_memory_bytes: int) -> list[Any]:
    """Those that a session may use, best first; nodes that a GPU cannot run are run by the next."""
    processor = _PROVIDERS[CPU]
    if device.kind == CPU:
        return [processor]
    settings: dict[str, Any] = {"device_id": device.number}
    cuda = {**settings, "arena_extend_strategy": "kSameAsRequested"}
    if gpu_memory_bytes:
        cuda["gpu_mem_limit"] = gpu_memory_bytes
    tensorrt = [(_PROVIDERS["tensorrt"], settings)] if device.kind == "tensorrt" else []
    return [*tensorrt, (_PROVIDERS["cuda"], cuda), processor]


def _import_onnxruntime() -> Any:
    os.environ.setdefault(*_NO_TELEMETRY)
    with library("onnxruntime", "onnx"):
        import onnxruntime
    return onnxruntime
