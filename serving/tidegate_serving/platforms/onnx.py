"""ONNX models through onnxruntime: one input per column or whole tensors, outputs by name.

Metadata: `onnx.file` (default: the only .onnx file), `onnx.outputs` (see `output_rules`), `onnx.threads` (threads of
one run, default 1). The manifest's event time is dropped where the graph lacks it; a column of shape [-1] becomes
[-1, 1] where the graph wants that, and back; a graph of a fixed batch is run in pieces. Export scikit-learn pipelines
with `zipmap=False`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.axes import as_column, as_matrix
from tidegate_serving.platforms.discovery import Discovered
from tidegate_serving.platforms.fixed_batch import fixed_batch, in_pieces
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.output_rules import OutputRule, output_rules
from tidegate_serving.platforms.platform import PlatformOptions, missing_library, model_file, thread_count

_NUMPY_TYPES = {
    "tensor(bool)": "bool",
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    **{f"tensor({kind}{bits})": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
_NO_TELEMETRY = ("ORT_DISABLE_TELEMETRY", "1")
"""onnxruntime reports to its maker over the network otherwise; read when the library is imported."""


class OnnxPlatform:
    """Loads an .onnx file into an onnxruntime session on the CPU."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options

    def discover(self, directory: Path, manifest: Manifest) -> Discovered:
        """Inputs and outputs of the graph; a column of shape [N, 1] becomes [N]."""
        path = model_file(manifest, directory, "onnx.file", (".onnx",))
        session = _session(path, manifest)
        inputs = tuple(_spec(node, path) for node in session.get_inputs())
        outputs = tuple(_spec(node, path) for node in session.get_outputs())
        return Discovered({SERVING_DEFAULT: Signature(inputs, outputs)})

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A session whose inputs and outputs are held against the signatures before anybody asks it."""
        path = model_file(manifest, directory, "onnx.file", (".onnx",))
        session = _session(path, manifest)
        rules = output_rules(manifest, "onnx.outputs")
        _check_inputs(session, manifest, path)
        _check_outputs(session, rules, path)
        return OnnxServable(session, manifest, rules)


class OnnxServable:
    """Runs the graph once per batch."""

    def __init__(self, session: Any, manifest: Manifest, rules: Mapping[str, OutputRule]) -> None:
        self._session = session
        self._inputs = [(node.name, node.type, len(node.shape or ())) for node in session.get_inputs()]
        self._size = fixed_batch(_shapes(session.get_inputs()), _shapes(session.get_outputs()))
        self._plans = {
            name: [(spec.name, rules[spec.name], len(spec.shape)) for spec in signature.outputs]
            for name, signature in manifest.signatures.items()
        }

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Outputs as the rules pick them from the graph's results."""
        plan = self._plans[signature]
        feed = {name: _fed(inputs[name], kind, rank) for name, kind, rank in self._inputs}
        results = list(dict.fromkeys(rule.result for _, rule, _ in plan))
        run = partial(self._run, results)
        found = run(feed) if self._size is None else in_pieces(run, feed, self._size)
        return {name: _given(rule, found[rule.result], rank) for name, rule, rank in plan}

    def _run(self, results: Sequence[str], feed: Mapping[str, Array]) -> dict[str, Any]:
        return dict(zip(results, self._session.run(results, feed), strict=True))

    def close(self) -> None:
        """Frees the session."""
        self._session = None


def _shapes(nodes: Sequence[Any]) -> list[Sequence[Any]]:
    return [node.shape or () for node in nodes]


def _session(path: Path, manifest: Manifest) -> Any:
    os.environ.setdefault(*_NO_TELEMETRY)
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_library("onnxruntime", "onnx", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = thread_count(manifest, "onnx.threads")
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelFailed(f"{path} is no ONNX model that onnxruntime can run: {error}") from error


def _spec(node: Any, path: Path) -> TensorSpec:
    dtype = "string" if node.type == "tensor(string)" else _NUMPY_TYPES.get(node.type)
    if dtype is None:
        raise InvalidInput(f"{path}: {node.name!r} is {node.type}, which cannot be served: export with zipmap=False")
    rest = tuple(size if isinstance(size, int) else -1 for size in (node.shape or ())[1:])
    return TensorSpec(node.name, dtype, (-1,) if rest == (1,) else (-1, *rest))


def _check_inputs(session: Any, manifest: Manifest, path: Path) -> None:
    wanted = [node.name for node in session.get_inputs()]
    for name, signature in manifest.signatures.items():
        missing = sorted(set(wanted) - set(signature.input_names))
        if missing:
            raise InvalidInput(f"{path} wants input {missing[0]!r}, which signature {name!r} does not have")
        unused = sorted(set(signature.input_names) - set(wanted) - {manifest.event_time})
        if unused:
            raise InvalidInput(f"{path} has no input {unused[0]!r}, which signature {name!r} has: mend the signature")


def _check_outputs(session: Any, rules: Mapping[str, OutputRule], path: Path) -> None:
    tensors = {node.name: node.type for node in session.get_outputs()}
    for output, rule in rules.items():
        if rule.result not in tensors:
            raise InvalidInput(
                f"{path} has no result {rule.result!r} for output {output!r}, it has {', '.join(tensors)}: "
                "mend metadata 'onnx.outputs'"
            )
        if not tensors[rule.result].startswith("tensor("):
            raise InvalidInput(f"{path}: result {rule.result!r} is {tensors[rule.result]}: export with zipmap=False")


def _fed(array: Array, kind: str, rank: int) -> Array:
    if kind == "tensor(string)":
        array = _as_text(array)
    elif array.dtype.name != _NUMPY_TYPES.get(kind):
        array = array.astype(_NUMPY_TYPES[kind], casting="same_kind")
    return as_matrix(array, rank)


def _as_text(array: Array) -> Array:
    made = np.empty(array.size, dtype=object)
    try:
        made[:] = [item.decode() if isinstance(item, bytes) else str(item) for item in array.ravel().tolist()]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"a string input is not UTF-8: {error}") from error
    return made.reshape(array.shape)


def _given(rule: OutputRule, result: Any, rank: int) -> Array:
    return as_column(rule.pick(np.asarray(result)), rank)
