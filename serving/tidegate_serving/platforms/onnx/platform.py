"""ONNX models through onnxruntime: one input per column or whole tensors, outputs by name.

Metadata: `onnx.file` (default: the only .onnx file), `onnx.outputs` (see `output_rules`), `onnx.threads` (threads of
one run, default 1). The manifest's event time is dropped where the graph lacks it; a column of shape [-1] becomes
[-1, 1] where the graph wants that, and back; a graph of a fixed batch is run in pieces. scikit-learn's exporter is best
told `zipmap=False`: the map per row that it makes otherwise becomes a matrix here, row by row.
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
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.arrays import as_column, as_matrix, as_text
from tidegate_serving.platforms.fixed_batch import in_pieces
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.onnx.signature import as_array, batch_size, dtype_of, graph_signature
from tidegate_serving.platforms.output_rules import OutputRule, output_rules
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions, library, model_file, thread_count

_NO_TELEMETRY = ("ORT_DISABLE_TELEMETRY", "1")
"""onnxruntime reports to its maker over the network otherwise; read when the library is imported."""


class OnnxPlatform:
    """Loads an .onnx file into an onnxruntime session on the CPU."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """Inputs and outputs of the graph, those that can be served; a column of shape [N, 1] becomes [N]."""
        path = model_file(manifest, directory, "onnx.file", (".onnx",))
        return ModelDescription({SERVING_DEFAULT: graph_signature(_session(path, manifest), path)})

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A session whose inputs and outputs are checked against the signatures."""
        path = model_file(manifest, directory, "onnx.file", (".onnx",))
        session = _session(path, manifest)
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


def _session(path: Path, manifest: Manifest) -> Any:
    os.environ.setdefault(*_NO_TELEMETRY)
    with library("onnxruntime", "onnx"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = thread_count(manifest, "onnx.threads")
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelFailed(f"{path} is no ONNX model that onnxruntime can run: {error}") from error


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
