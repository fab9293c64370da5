"""How a version is called: inputs and outputs by name, dtype and shape, in plain frozen values.

Publishers write signatures into the manifest; platforms, the data plane, clients and gates read them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.formats import MALFORMED

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
    "complex64",
    "complex128",
)
SERVING_DEFAULT = "serving_default"
PREDICT = "tensorflow/serving/predict"
SEQUENCE_ID, SEQUENCE_START, SEQUENCE_END = "sequence_id", "sequence_start", "sequence_end"
SEQUENCE_INPUTS = {SEQUENCE_ID: "string", SEQUENCE_START: "bool", SEQUENCE_END: "bool"}
"""Scalar inputs that say where in its sequence a request is, by name with their dtypes."""


class FirstAxis(enum.StrEnum):
    """What the first axis of a signature's tensors is.

    BATCH: the batch, says whoever made the model; requests share runs, and an answer of other rows is a fault.
    ASSUMED: the batch as far as the shapes tell, such as a SavedModel's; requests share runs until an answer shows that
    it is none, and one whose inputs differ in it runs alone.
    FREE: no batch, as with scalars; each request runs alone with exactly its shapes, and is logged as one row.
    """

    BATCH = "batch"
    ASSUMED = "assumed"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, dtype (numpy's, or `string` for bytes) and shape; -1 is any size. An unknown rank goes with shape ()."""

    name: str
    dtype: str
    shape: tuple[int, ...] = (-1,)
    unknown_rank: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InvalidInput(f"tensor {self.name!r} has dtype {self.dtype!r}: use one of {', '.join(DTYPES)}")
        if any(size < -1 for size in self.shape):
            raise InvalidInput(f"tensor {self.name!r} has shape {list(self.shape)}: use -1 for any size")
        if self.unknown_rank and self.shape:
            raise InvalidInput(
                f"tensor {self.name!r} has shape {list(self.shape)} and an unknown rank: give one of both"
            )

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        data: dict[str, Any] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}
        return {**data, "unknown_rank": True} if self.unknown_rank else data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TensorSpec:
        """From JSON; InvalidInput when a key is missing or a value is unusable."""
        try:
            shape = tuple(int(size) for size in data["shape"])
            return cls(str(data["name"]), str(data["dtype"]), shape, bool(data.get("unknown_rank", False)))
        except MALFORMED as error:
            lacks = [name for name in ("name", "dtype", "shape") if isinstance(data, Mapping) and name not in data]
            what = f"lacks {' and '.join(lacks)}" if lacks else f"has something unusable ({error})"
            raise InvalidInput(
                f'tensor {data!r} {what}: write it as {{"name": "x", "dtype": "float32", "shape": [-1]}}, where -1 '
                "stands for any number of rows"
            ) from error


@dataclass(frozen=True, slots=True)
class DocumentSchema:
    """What a signature takes and gives as one JSON document in each row, in JSON Schema."""

    request: Mapping[str, Any] = field(hash=False)
    response: Mapping[str, Any] = field(hash=False)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"request": dict(self.request), "response": dict(self.response)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DocumentSchema:
        """From JSON; InvalidInput when one is missing or no object."""
        try:
            return cls(dict(data["request"]), dict(data["response"]))
        except MALFORMED as error:
            raise InvalidInput(f"the schema of a signature needs request and response as objects: {error}") from error


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of one way to call a version; `method_name` as in TensorFlow's SignatureDef.

    `defaults` are values, as nested lists or scalars, for inputs that a request may leave out. One that is `streaming`
    answers each request with messages, one after the other, each with all outputs; its first axis is FREE. One with a
    `schema` has one input and one output, of strings that are JSON documents. One with `sequences` keeps something from
    request to request of a sequence; it has the scalar inputs of SEQUENCE_INPUTS, and its first axis is FREE.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    method_name: str = PREDICT
    first_axis: FirstAxis = FirstAxis.BATCH
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    streaming: bool = False
    schema: DocumentSchema | None = None
    sequences: bool = False

    def __post_init__(self) -> None:
        for what, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [spec.name for spec in specs]
            may_be_none = specs is self.inputs and self.first_axis is FirstAxis.FREE
            if not (names or may_be_none) or len(set(names)) != len(names):
                raise InvalidInput(f"a signature needs {what} with names of their own, not {names}")
            for spec in specs:
                self._check_axis(spec)
        if self.streaming and self.first_axis is not FirstAxis.FREE:
            raise InvalidInput(
                f"a streaming signature has the first axis {self.first_axis.value!r}, but its requests run alone: "
                "give it the first axis 'free'"
            )
        if unknown := sorted(set(self.defaults) - set(self.input_names)):
            raise InvalidInput(f"a signature has a default for {unknown[0]!r}, which is none of its inputs")
        if self.schema is not None:
            self._check_documents()
        if self.sequences:
            self._check_sequences()

    def _check_sequences(self) -> None:
        if self.first_axis is not FirstAxis.FREE or self.streaming:
            raise InvalidInput(
                "requests of a signature with sequences run alone, answered once: give it the first axis 'free', "
                "with whole shapes such as [1, 4], and no streaming"
            )
        for name, dtype in SEQUENCE_INPUTS.items():
            if TensorSpec(name, dtype, ()) not in self.inputs:
                raise InvalidInput(
                    f"a signature with sequences needs input {name!r} of dtype {dtype} and shape [], which "
                    "Signature.from_dict adds where there is no input of that name"
                )

    def _check_documents(self) -> None:
        specs = [(spec.dtype, spec.shape) for spec in (*self.inputs, *self.outputs)]
        if specs != [("string", (-1,))] * 2 or self.first_axis is not FirstAxis.BATCH or len(self.inputs) != 1:
            raise InvalidInput(
                "a signature with a schema takes and gives documents: give it one input and one output of dtype string "
                f"and shape [-1], not {[spec.name for spec in (*self.inputs, *self.outputs)]}"
            )

    def _check_axis(self, spec: TensorSpec) -> None:
        rows = spec.shape[:1] == (-1,)
        if self.first_axis is FirstAxis.FREE or rows:
            return
        if self.first_axis is FirstAxis.BATCH or not (spec.shape or spec.unknown_rank):
            raise InvalidInput(
                f"tensor {spec.name!r} has shape {list(spec.shape)}: the first axis is the batch, -1; where it is "
                "not, give the signature the first axis 'free'"
            )

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(spec.name for spec in self.inputs)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        data: dict[str, Any] = {
            "method_name": self.method_name,
            "inputs": [spec.to_dict() for spec in self.inputs],
            "outputs": [spec.to_dict() for spec in self.outputs],
        }
        if self.first_axis is not FirstAxis.BATCH:
            data["first_axis"] = self.first_axis.value
        if self.streaming:
            data["streaming"] = True
        if self.schema is not None:
            data["schema"] = self.schema.to_dict()
        if self.sequences:
            data["sequences"] = True
        return {**data, "defaults": dict(self.defaults)} if self.defaults else data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Signature:
        """From JSON; InvalidInput when a key is missing or a value is unusable."""
        try:
            inputs = tuple(TensorSpec.from_dict(spec) for spec in data["inputs"])
            outputs = tuple(TensorSpec.from_dict(spec) for spec in data["outputs"])
        except MALFORMED as error:
            raise InvalidInput(f"a signature needs inputs and outputs: {error}") from error
        axis = str(data.get("first_axis", FirstAxis.BATCH.value))
        if axis not in FirstAxis.__members__.values():
            raise InvalidInput(f"a signature has first axis {axis!r}: use one of {', '.join(FirstAxis)}")
        defaults, method = dict(data.get("defaults", {})), str(data.get("method_name", PREDICT))
        schema = DocumentSchema.from_dict(data["schema"]) if data.get("schema") is not None else None
        streaming, sequences = bool(data.get("streaming", False)), bool(data.get("sequences", False))
        if sequences:
            inputs, defaults = _with_sequence_inputs(inputs, defaults)
        return cls(inputs, outputs, method, FirstAxis(axis), defaults, streaming, schema, sequences)


def _with_sequence_inputs(
    inputs: tuple[TensorSpec, ...], defaults: dict[str, Any]
) -> tuple[tuple[TensorSpec, ...], dict[str, Any]]:
    names = {spec.name for spec in inputs}
    added = tuple(TensorSpec(name, dtype, ()) for name, dtype in SEQUENCE_INPUTS.items() if name not in names)
    return (*inputs, *added), {SEQUENCE_START: False, SEQUENCE_END: False, **defaults}


def default_name(signatures: Mapping[str, Signature]) -> str:
    """The signature that a version is mainly asked by: `serving_default`, else the first. InvalidInput for none."""
    if not signatures:
        raise InvalidInput("a version needs at least one signature, usually under the name 'serving_default'")
    return SERVING_DEFAULT if SERVING_DEFAULT in signatures else next(iter(signatures))


def inputs_by_name(signatures: Mapping[str, Signature]) -> dict[str, TensorSpec]:
    """Every input of every signature; where two signatures disagree about one, the default signature's, else the first.

    InvalidInput where there is no signature.
    """
    default = signatures[default_name(signatures)]
    found: dict[str, TensorSpec] = {}
    for signature in (default, *signatures.values()):
        for spec in signature.inputs:
            found.setdefault(spec.name, spec)
    return found
