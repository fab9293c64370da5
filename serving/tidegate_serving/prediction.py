"""A model's answer, as the client gets it over the wire and an embedding program in process."""

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
