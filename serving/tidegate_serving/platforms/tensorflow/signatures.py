"""TensorFlow's SignatureDefs as the contract's signatures; those that the contract cannot express are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate_serving.contract.errors import TidegateError, Unsupported
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import PREDICT, FirstAxis, Signature, TensorSpec
from tidegate_serving.platforms.fixed_batch import first_axis_of, fixed_batch
from tidegate_serving.platforms.platform import ModelDescription
from tidegate_serving.tensor_proto import DATA_TYPES, dtype_of, to_array

INIT_OP = "__saved_model_init_op"
TRAIN_OP = "__saved_model_train_op"
_BY_EXAMPLE = ("tensorflow/serving/classify", "tensorflow/serving/regress")
_REF = 100


def discovered_signatures(signature_defs: Mapping[str, Any]) -> ModelDescription:
    """Every signature that can be served, with TensorFlow's method name, and the others with the reason."""
    found: dict[str, Signature] = {}
    refused: dict[str, str] = {}
    for name in sorted(signature_defs):
        if name in (INIT_OP, TRAIN_OP):
            continue
        try:
            found[name] = signature_of(signature_defs[name])
        except TidegateError as error:
            refused[name] = error.message
    return ModelDescription(found, refused=refused)


def definitions_as_served(signature_defs: Mapping[str, Any], served: Mapping[str, Signature]) -> Any:
    """A `SignatureDefMap` of all of a SavedModel's, with the graph's tensor names, shapes and defaults.

    Where the manifest's signature differs in inputs, outputs or shapes, it counts, as requests are checked against it.
    """
    described = message("tensorflow.serving.SignatureDefMap")()
    for name, definition in signature_defs.items():
        copy = described.signature_def[name]
        copy.CopyFrom(definition)
        if name in served:
            _lay_over(copy.inputs, served[name].inputs)
            _lay_over(copy.outputs, served[name].outputs)
    return described


def _lay_over(infos: Any, specs: Sequence[TensorSpec]) -> None:
    for name in set(infos) - {spec.name for spec in specs}:
        del infos[name]
    for spec in specs:
        if spec.name not in infos:
            infos[spec.name].name = spec.name
            infos[spec.name].dtype = DATA_TYPES[spec.dtype]
        elif _is_unranked(infos[spec.name]) or _shape(infos[spec.name]) == spec.shape:
            continue
        shape = infos[spec.name].tensor_shape
        shape.Clear()
        for size in spec.shape:
            shape.dim.add(size=size)


def signature_of(definition: Any) -> Signature:
    """One SignatureDef; tensors in the order of their names. Unsupported for what is no dense tensor of a known type.

    The first axis is taken for the batch where the shapes allow it; an output of unknown rank does.
    """
    inputs, outputs = input_specs(definition), output_specs(definition)
    axis = first_axis_of([_shape_of(spec) for spec in inputs], [_shape_of(spec) for spec in outputs])
    if definition.method_name in _BY_EXAMPLE and [spec.dtype for spec in inputs] == ["string"]:
        axis = FirstAxis.ASSUMED
    return Signature(inputs, outputs, definition.method_name or PREDICT, axis, _defaults(definition))


def input_dtypes(definition: Any) -> dict[str, str]:
    """The inputs' dtypes by name; Unsupported as `output_dtypes`."""
    return {spec.name: spec.dtype for spec in input_specs(definition)}


def input_specs(definition: Any) -> tuple[TensorSpec, ...]:
    """The inputs alone; Unsupported as in `signature_of`."""
    return tuple(_spec("input", name, definition.inputs[name]) for name in sorted(definition.inputs))


def output_specs(definition: Any) -> tuple[TensorSpec, ...]:
    """The outputs alone; Unsupported as in `signature_of`."""
    return tuple(_spec("output", name, definition.outputs[name]) for name in sorted(definition.outputs))


def output_dtypes(definition: Any) -> dict[str, str]:
    """The outputs' dtypes by name; Unsupported for what is no dense tensor, or of a type that numpy lacks."""
    return {spec.name: spec.dtype for spec in output_specs(definition)}


def hides_outputs(signature: Signature) -> bool:
    """Whether requests share runs and a trial would tell more: an output has an unknown rank, no input has."""
    if signature.first_axis is FirstAxis.FREE or any(spec.unknown_rank for spec in signature.inputs):
        return False
    return any(spec.unknown_rank for spec in signature.outputs)


def batch_of(definition: Any) -> int | None:
    """The batch size for which a SignatureDef was exported; None for any."""
    return fixed_batch(
        [_shape(info) for info in definition.inputs.values()], [_shape(info) for info in definition.outputs.values()]
    )


def data_type(info: Any) -> int:
    """The number of a tensor's `DataType`; that of a reference is the one it refers to."""
    return int(info.dtype) - _REF if info.dtype > _REF else int(info.dtype)


def _shape(info: Any) -> tuple[int, ...]:
    return tuple(int(dim.size) for dim in info.tensor_shape.dim)


def _is_unranked(info: Any) -> bool:
    return not info.HasField("tensor_shape") or bool(info.tensor_shape.unknown_rank)


def _spec(role: str, name: str, info: Any) -> TensorSpec:
    if info.WhichOneof("encoding") != "name":
        raise Unsupported(f"{role} {name!r} is no dense tensor: export a signature of dense tensors")
    dtype = dtype_of(data_type(info))
    return (
        TensorSpec(name, dtype, (), unknown_rank=True) if _is_unranked(info) else TensorSpec(name, dtype, _shape(info))
    )


def _shape_of(spec: TensorSpec) -> tuple[int, ...] | None:
    return None if spec.unknown_rank else spec.shape


def _defaults(definition: Any) -> dict[str, Any]:
    return {name: _plain(to_array(proto).tolist()) for name, proto in sorted(definition.defaults.items())}


def _plain(value: Any) -> Any:
    """A default as JSON holds it; bytes that are no text survive as lone surrogates."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value
