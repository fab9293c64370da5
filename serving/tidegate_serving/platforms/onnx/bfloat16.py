"""Graphs with tensors of bfloat16, which numpy lacks: to clients they are float32, of which the graph gets the nearest.

A bfloat16 is the upper half of a float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.contract.tensors import Array

BFLOAT16 = "tensor(bfloat16)"
_TEXTS = "tensor(string)"
_NUMBER = 16
"""ONNX's number of the type."""
_NOT_A_NUMBER = 0x7FC0


def in_float32(session: Any, path: Path) -> Any:
    """The session, asked in float32 where inputs or outputs are bfloat16. Unsupported where an input beside is of
    texts, which onnxruntime does not take together.
    """
    nodes = [*session.get_inputs(), *session.get_outputs()]
    if not any(node.type == BFLOAT16 for node in nodes):
        return session
    for node in session.get_inputs():
        if node.type == _TEXTS:
            raise Unsupported(
                f"{path}: input {node.name!r} is of texts, beside tensors of bfloat16: export the model with float32"
            )
    return Bfloat16Session(session)


class Bfloat16Session:
    """What the platform calls of an `InferenceSession`, with float32 in place of bfloat16."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._narrow = {node.name for node in session.get_inputs() if node.type == BFLOAT16}

    def get_inputs(self) -> Any:
        """As the graph declares them."""
        return self._session.get_inputs()

    def get_outputs(self) -> Any:
        """As the graph declares them."""
        return self._session.get_outputs()

    def run(self, names: Sequence[str] | None, feed: Mapping[str, Array], options: Any = None) -> list[Any]:
        """The outputs with these names, or all; raises what onnxruntime raises."""
        from onnxruntime import OrtValue

        given = {
            name: OrtValue.ortvalue_from_numpy_with_onnx_type(narrowed(value), _NUMBER)
            if name in self._narrow
            else OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
            for name, value in feed.items()
        }
        wanted = names or [node.name for node in self.get_outputs()]
        return [_array(value) for value in self._session.run_with_ort_values(wanted, given, options)]


def narrowed(values: Array) -> Array:
    """The bits (uint16) of the nearest bfloat16 of each float32, the even one of two; infinities stay."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    nearest = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(_NOT_A_NUMBER), nearest)


def widened(bits: Array) -> Array:
    """The float32 with these bits (uint16) of bfloat16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _array(value: Any) -> Any:
    """A copy: onnxruntime has no numpy array to give for a bfloat16."""
    if value.data_type() != BFLOAT16:
        return value.numpy()
    shape = tuple(value.shape())
    if not all(shape):
        return np.zeros(shape, np.float32)
    bits = ctypes.cast(value.data_ptr(), ctypes.POINTER(ctypes.c_uint16))
    return widened(np.ctypeslib.as_array(bits, shape))
