"""How a version is called: inputs and outputs by name, dtype and shape, in plain frozen values.

Publishers write signatures into the manifest; platforms, the data plane, clients and gates read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_serving.contract.errors import InvalidInput

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "string",
)
SERVING_DEFAULT = "serving_default"
PREDICT = "tensorflow/serving/predict"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, dtype (numpy's name, or `string` for bytes) and shape; -1 is any size, the first axis is the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...] = (-1,)

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InvalidInput(f"tensor {self.name!r} has dtype {self.dtype!r}: use one of {', '.join(DTYPES)}")
        if not self.shape or self.shape[0] != -1 or any(size < -1 for size in self.shape):
            raise InvalidInput(f"tensor {self.name!r} has shape {list(self.shape)}: the first axis is the batch, -1")

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TensorSpec:
        """From JSON; InvalidInput when a key is missing or a value is unusable."""
        try:
            return cls(str(data["name"]), str(data["dtype"]), tuple(int(size) for size in data["shape"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"tensor {dict(data)!r} needs name, dtype and shape: {error}") from error


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of one way to call a version; `method_name` as in TensorFlow's SignatureDef."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    method_name: str = PREDICT

    def __post_init__(self) -> None:
        for what, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [spec.name for spec in specs]
            if not names or len(set(names)) != len(names):
                raise InvalidInput(f"a signature needs {what} with names of their own, not {names}")

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(spec.name for spec in self.inputs)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "method_name": self.method_name,
            "inputs": [spec.to_dict() for spec in self.inputs],
            "outputs": [spec.to_dict() for spec in self.outputs],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Signature:
        """From JSON; InvalidInput when a key is missing or a value is unusable."""
        try:
            inputs = tuple(TensorSpec.from_dict(spec) for spec in data["inputs"])
            outputs = tuple(TensorSpec.from_dict(spec) for spec in data["outputs"])
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"a signature needs inputs and outputs: {error}") from error
        return cls(inputs, outputs, str(data.get("method_name", PREDICT)))


def default_name(signatures: Mapping[str, Signature]) -> str:
    """The signature that a version is mainly asked by: `serving_default`, else the first. InvalidInput for none."""
    if not signatures:
        raise InvalidInput("a version needs at least one signature, usually under the name 'serving_default'")
    return SERVING_DEFAULT if SERVING_DEFAULT in signatures else next(iter(signatures))
