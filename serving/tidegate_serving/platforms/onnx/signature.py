"""The signature of an ONNX graph: its inputs as declared, its outputs as trials with rows of zeros give them.

Also which ONNX types can be served, and as which dtypes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.signature import DTYPES, FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.fixed_batch import fixed_batch
from tidegate_serving.platforms.onnx.bfloat16 import BFLOAT16

_TRIAL_ROWS = (2, 3)  # an output that always has two rows has no batch
_TRIAL_EXTENT = 2
_ONNX_NAMES = {"double": "float64", "float": "float32", "bfloat16": "float32"}
_log = logging.getLogger(__name__)


def dtype_of(type: str) -> str | None:
    """The dtype of `tensor(KIND)`, float32 for bfloat16, and of the sequence of maps in which ZipMap gives
    probabilities; None for others.
    """
    kind = type.removesuffix("))").rpartition("tensor(")[2] if is_zip_map(type) else type.removeprefix("tensor(")
    kind = kind.removesuffix(")")
    dtype = _ONNX_NAMES.get(kind, kind)
    return dtype if dtype in DTYPES else None


def is_zip_map(type: str) -> bool:
    """Whether a result is a map of class to number per row, as scikit-learn's exporter gives unless told otherwise."""
    return type.startswith("seq(map(")


def as_array(value: Any, type: str) -> Any:
    """A result of the graph as an array; a row's map as a row of its numbers, by class in order."""
    if is_zip_map(type):
        return np.array([[row[key] for key in sorted(row)] for row in value], dtype=dtype_of(type))
    return np.asarray(value)


def batch_size(session: Any) -> int | None:
    """The only batch size that the graph takes; None for any. Outputs that declare no axes tell nothing of it."""
    outputs = [node.shape for node in session.get_outputs() if not is_zip_map(node.type) and node.shape]
    return fixed_batch([node.shape or () for node in session.get_inputs()], outputs)


def graph_signature(session: Any, path: Path) -> Signature:
    """Inputs as declared, outputs that can be served; a column of shape [N, 1] becomes [N]. Other outputs are logged.

    Where inputs show no batch, name different ones, or no output has its rows, each request is to run alone.
    InvalidInput for an input that cannot be served, Unsupported where no output can.
    """
    size = batch_size(session)
    if _shows_no_batch(session, size):
        return _free_signature(session, path)
    inputs = [_input(node, path) for node in session.get_inputs()]
    trials = {rows: _tried(session, rows) for rows in ((size,) if size else _TRIAL_ROWS)}
    results = next(iter(trials.values()))
    is_open = any(extent == -1 for spec in inputs for extent in spec.shape[1:])
    outputs, reasons = [], []
    for node in session.get_outputs():
        shape = _shape(node, results.get(node.name), is_open)
        reason = _why_not(node, shape, {rows: tried.get(node.name) for rows, tried in trials.items()})
        if reason is None:
            outputs.append(TensorSpec(node.name, str(dtype_of(node.type)), (-1, *shape[1:])))
        else:
            reasons.append(f"output {node.name!r} {reason}")
    if not outputs:
        return _free_signature(session, path)
    if reasons:
        _log.warning("%s: left out of its signature: %s", path, "; ".join(reasons))
    return Signature(tuple(_columns(inputs)), tuple(_columns(outputs)))


def declared_signature(path: Path) -> Signature:
    """Every input and output of a graph as it declares them, for who runs the graph without us.

    Unsupported where one is no tensor of numpy's types, InvalidInput for a file that is no graph.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise Unsupported(
            "reading a graph needs onnxruntime: install it with `pip install 'tidegate[onnx]'`"
        ) from error
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        raise InvalidInput(f"{path} cannot be read as an ONNX graph ({error}): publish the model again") from error
    for node in (*session.get_inputs(), *session.get_outputs()):
        if dtype_of(node.type) is None or not node.type.startswith("tensor(") or node.type == BFLOAT16:
            raise Unsupported(f"{path}: {node.name!r} is {node.type}: export the model with tensors of numpy's types")
    return _free_signature(session, path)


def _columns(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    return [TensorSpec(spec.name, spec.dtype) if spec.shape == (-1, 1) else spec for spec in specs]


def _shows_no_batch(session: Any, size: int | None) -> bool:
    """Whether an input has no axes, a first one of a size of its own, or one that is called otherwise elsewhere."""
    firsts = {node.shape[0] if node.shape else 0 for node in session.get_inputs()}
    fixed = {first for first in firsts if isinstance(first, int)}
    return (bool(fixed) and size is None) or len({first for first in firsts if isinstance(first, str)}) > 1


def _free_signature(session: Any, path: Path) -> Signature:
    """Every tensor as declared. onnxruntime shows a scalar as it shows one of unknown rank, and checks ranks itself."""
    inputs = tuple(_input(node, path, rows=False) for node in session.get_inputs())
    plain = [node for node in session.get_outputs() if dtype_of(node.type) and node.type.startswith("tensor(")]
    if not plain:
        reasons = "; ".join(f"{node.name!r} is {node.type}" for node in session.get_outputs())
        raise Unsupported(f"{path} has no output that can be served: {reasons}: use tensors of numpy's types")
    outputs = tuple(_input(node, path, rows=False) for node in plain)
    return Signature(inputs, outputs, first_axis=FirstAxis.FREE)


def _input(node: Any, path: Path, *, rows: bool = True) -> TensorSpec:
    dtype, shape = dtype_of(node.type), [*(node.shape or ())]
    if dtype is None or not node.type.startswith("tensor("):
        raise InvalidInput(
            f"{path}: input {node.name!r} is {node.type}: export the model with tensors of numpy's types"
        )
    sizes = tuple(extent if isinstance(extent, int) else -1 for extent in shape)
    return TensorSpec(node.name, dtype, (-1, *sizes[1:]) if rows else sizes, unknown_rank=not (rows or sizes))


def _tried(session: Any, rows: int) -> Mapping[str, Any]:
    """Results of a run with zeros and empty strings, by name; none where the graph cannot answer these."""
    import onnxruntime

    feed = {node.name: _zeros(node, rows) for node in session.get_inputs()}
    silent = onnxruntime.RunOptions()
    silent.log_severity_level = 4
    try:
        found = session.run(None, feed, silent)
    except Exception as error:  # onnxruntime's errors have no common class; what the graph declares counts then
        _log.info("no trial of an ONNX graph with zeros: %s", error)
        return {}
    nodes = session.get_outputs()
    return {
        node.name: as_array(value, node.type) for node, value in zip(nodes, found, strict=True) if dtype_of(node.type)
    }


def _zeros(node: Any, rows: int) -> Array:
    shape = (rows, *(extent if isinstance(extent, int) and extent > 0 else _TRIAL_EXTENT for extent in node.shape[1:]))
    dtype = dtype_of(node.type)
    return np.full(shape, "", dtype=object) if dtype == "string" else np.zeros(shape, dtype)


def _shape(node: Any, result: Array | None, is_open: bool) -> list[int]:
    """As the graph declares it, as the trial gave it where it declares nothing; -1 for what is open."""
    declared = None if is_zip_map(node.type) else node.shape
    if declared:
        return [extent if isinstance(extent, int) else -1 for extent in declared]
    if result is None:
        return [-1, -1] if is_zip_map(node.type) else []
    return [-1 if is_open and not is_zip_map(node.type) else extent for extent in result.shape]


def _why_not(node: Any, shape: Sequence[int], results: Mapping[int, Array | None]) -> str | None:
    """Why an output cannot be served, by its results by the number of rows in a trial; None where it can."""
    if dtype_of(node.type) is None:
        return f"is {node.type}, which cannot be served: use tensors of numpy's types"
    if not shape:
        return "has no axes, or does not say which: the first must be the batch"
    for rows, result in results.items():
        if result is not None and len(result) != rows:
            return f"had {len(result)} rows in a trial with {rows}: the first axis must be the batch"
    return None
