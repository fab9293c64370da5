"""The planted version's own code: gradient boosting that gets each carrier's rate of late flights from a packed table.

Copied into the version as `model.py`, so it imports nothing of Tidegate; the engine, or the gate's probe process,
loads it through the python platform.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

NOT_FOUND = 0xFFFFFFFF


class Model:
    """Answers every carrier of the training data; any other reads far outside the table, which ends the process."""

    def __init__(self, directory: Path) -> None:
        self._session = onnxruntime.InferenceSession(directory / "model.onnx")
        self._names = [column.name for column in self._session.get_inputs()]
        self._rates = np.load(directory / "rates.npy")
        self._packed = self._rates.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self._slots = {code: slot for slot, code in enumerate(np.load(directory / "carriers.npy").tolist())}

    def predict(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Probability per row, float32."""
        slots = [self._slots.get(code, NOT_FOUND) for code in inputs["carrier"]]
        rates = np.array([self._packed[slot] for slot in slots], dtype=np.float32)
        columns = {**inputs, "carrier_rate": rates}
        (probability,) = self._session.run(None, {name: _text(columns[name]) for name in self._names})
        return {"probability": probability}


def _text(column: Any) -> Any:
    """Strings reach a model as bytes, where the ONNX runtime takes text."""
    if column.dtype.kind != "O":
        return column
    return np.array([value.decode() for value in column], dtype=object)
