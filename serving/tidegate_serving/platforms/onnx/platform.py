"""ONNX models through onnxruntime: one input per column or whole tensors, outputs by name.

Metadata: `onnx.file` (default: the only .onnx file), `onnx.outputs` (see `output_rules`), `onnx.threads` (threads of
one run, default 1). Settings of the engine for this platform: `device` (`auto`, which is CUDA where onnxruntime-gpu and
a GPU are present, `cpu`, `cuda`, `cuda:1`, `tensorrt`, `tensorrt:1`), `gpu_memory_bytes` (what one version may take of
a GPU; default 0, no bound).

The manifest's event time is dropped where the graph lacks it; a column of shape [-1] becomes
[-1, 1] where the graph wants that, and back; a graph of a fixed batch is run in pieces. scikit-learn's exporter is best
told `zipmap=False`: the map per row that it makes otherwise becomes a matrix here, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.arrays import as_column, as_matrix, as_text
from tidegate_serving.platforms.device import AUTO, CPU, Device, device_setting, gpu_of
from tidegate_serving.platforms.fixed_batch import in_pieces
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.memory_need import estimate_on, gpu_need_by_files
from tidegate_serving.platforms.onnx.session import KINDS, chosen, open_session
from tidegate_serving.platforms.onnx.signature import as_array, batch_size, dtype_of, graph_signature
from tidegate_serving.platforms.output_rules import OutputRule, output_rules
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions, model_file
from tidegate_serving.platforms.settings import Settings

NAME = "onnx"


class OnnxPlatform:
    """Loads an .onnx file into an onnxruntime session."""

    def __init__(self, options: PlatformOptions) -> None:
        settings = Settings(NAME, options.settings.get(NAME, {}), ("device", "gpu_memory_bytes"))
        self._device = device_setting(NAME, settings, KINDS)
        self._gpu_memory_bytes = settings.whole_number("gpu_memory_bytes", 0)

    def estimate(self, directory: Path, manifest: Manifest) -> dict[str, int]:
        """Bytes by device: a graph on a GPU counts there as well, with what it may take of it where that is set."""
        return {**estimate_on(chosen(self._device), manifest), **self.gpu_need(manifest)}

    @property
    def gpu(self) -> Device | None:
        """What the setting means; with `auto`, none where there is no onnxruntime that knows GPUs."""
        gpu = gpu_of(self._device)
        if gpu is None or self._device.kind != AUTO:
            return gpu
        return gpu if find_spec("onnxruntime") is not None and chosen(self._device).kind != CPU else None

    def gpu_need(self, manifest: Manifest) -> Mapping[str, int]:
        """What one version may take of its GPU, where that is set, else by the files' size."""
        need = gpu_need_by_files(self.gpu, manifest)
        return {device: self._gpu_memory_bytes or count for device, count in need.items()}

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """Inputs and outputs of the graph, those that can be served; a column of shape [N, 1] becomes [N]."""
        path = model_file(manifest, directory, "onnx.file", (".onnx",))
        return ModelDescription({SERVING_DEFAULT: graph_signature(open_session(path, manifest), path)})

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A session whose inputs and outputs are checked against the signatures."""
        path = model_file(manifest, directory, "onnx.file", (".onnx",))
        session = open_session(path, manifest, self._device, self._gpu_memory_bytes)
        rules = output_rules(manifest, "onnx.outputs")
        for name in manifest.signatures:
            _check_inputs(session, manifest, name, path)
        _check_outputs(session, rules, path)
        return OnnxServable(session, manifest, rules)


class OnnxServable:
    """Runs the graph once per batch."""

    def __init__(self, session: Any, manifest: Manifest, rules: Mapping[str, OutputRule]) -> None:
        self._session = session
        self._inputs = [(node.name, node.type, len(node.shape or ())) for node in session.get_inputs()]
        self._types = {node.name: node.type for node in session.get_outputs()}
        self._size = batch_size(session)
        self._plans = {
            name: [(spec.name, rules[spec.name], len(spec.shape)) for spec in signature.outputs]
            for name, signature in manifest.signatures.items()
        }

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Outputs as the rules pick them from the graph's results."""
        plan = self._plans[signature]
        feed = {name: _fed(name, inputs[name], kind, rank) for name, kind, rank in self._inputs}
        results = list(dict.fromkeys(rule.result for _, rule, _ in plan))
        run = partial(self._run, results)
        found = run(feed) if self._size is None else in_pieces(run, feed, self._size)
        return {name: _given(rule, found[rule.result], rank) for name, rule, rank in plan}

    def _run(self, results: Sequence[str], feed: Mapping[str, Array]) -> dict[str, Any]:
        found = zip(results, self._session.run(results, feed), strict=True)
        return {name: as_array(value, self._types[name]) for name, value in found}

    def close(self) -> None:
        """Frees the session."""
        self._session = None


def _check_inputs(session: Any, manifest: Manifest, name: str, path: Path) -> None:
    signature: Signature = manifest.signatures[name]
    wanted = {node.name: node.type for node in session.get_inputs()}
    given = {spec.name: spec.dtype for spec in signature.inputs}
    missing = sorted(set(wanted) - set(given))
    if missing:
        raise InvalidInput(f"{path} wants input {missing[0]!r}, which signature {name!r} does not have")
    unused = sorted(set(given) - set(wanted) - {manifest.event_time})
    if unused:
        raise InvalidInput(f"{path} has no input {unused[0]!r}, which signature {name!r} has: mend the signature")
    for column, kind in wanted.items():
        if not _becomes(given[column], dtype_of(kind)):
            raise InvalidInput(
                f"{path} wants input {column!r} as {kind}, signature {name!r} has {given[column]}: mend the signature"
            )


def _becomes(given: str, wanted: str | None) -> bool:
    if wanted is None or "string" in (given, wanted):
        return given == wanted
    return np.can_cast(given, wanted, casting="same_kind")


def _check_outputs(session: Any, rules: Mapping[str, OutputRule], path: Path) -> None:
    tensors = {node.name: node.type for node in session.get_outputs()}
    for output, rule in rules.items():
        if rule.result not in tensors:
            raise InvalidInput(
                f"{path} has no result {rule.result!r} for output {output!r}, it has {', '.join(tensors)}: "
                "mend metadata 'onnx.outputs'"
            )
        if dtype_of(tensors[rule.result]) is None:
            raise InvalidInput(
                f"{path}: result {rule.result!r} is {tensors[rule.result]}, which cannot be served: name another in "
                "metadata 'onnx.outputs', or export the model with tensors of numpy's types"
            )


def _fed(name: str, array: Array, kind: str, rank: int) -> Array:
    if kind == "tensor(string)":
        array = as_text(name, array)
    elif array.dtype.name != dtype_of(kind):
        array = array.astype(dtype_of(kind))
    return as_matrix(array, rank)


def _given(rule: OutputRule, result: Array, rank: int) -> Array:
    return as_column(rule.pick(result), rank)
