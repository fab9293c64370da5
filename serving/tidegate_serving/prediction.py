"""What a model answered, whichever way it was asked.

The client makes one from an answer on the wire, the engine from one in process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate_serving.contract.tensors import Array


@dataclass(frozen=True, slots=True)
class Prediction:
    """Outputs by name, batch on axis 0, and the model and version that gave them; `prediction["y"]` is one output."""

    outputs: Mapping[str, Array]
    model: str
    version: int

    def __getitem__(self, output: str) -> Array:
        return self.outputs[output]
