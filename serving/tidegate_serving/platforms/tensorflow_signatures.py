"""TensorFlow's SignatureDefs as the contract's signatures; what the contract cannot express is refused one by one.

The tensorflow platform hands in the signature map of a meta graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate_serving.contract.errors import TidegateError, Unsupported
from tidegate_serving.contract.signature import PREDICT, Signature, TensorSpec
from tidegate_serving.platforms.discovery import Discovered
from tidegate_serving.platforms.fixed_batch import fixed_batch
from tidegate_serving.tensor_proto import dtype_of

INIT_OP = "__saved_model_init_op"
TRAIN_OP = "__saved_model_train_op"
_REF = 100


def discovered_signatures(signature_defs: Mapping[str, Any]) -> Discovered:
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
    return Discovered(found, refused=refused)


def signature_of(definition: Any) -> Signature:
    """One SignatureDef; tensors in the order of their names. Unsupported for what has no batch on axis 0."""
    size = batch_of(definition)
    return Signature(
        tuple(_spec("input", name, definition.inputs[name], size) for name in sorted(definition.inputs)),
        tuple(_spec("output", name, definition.outputs[name], size) for name in sorted(definition.outputs)),
        definition.method_name or PREDICT,
    )


def input_dtypes(definition: Any) -> dict[str, str]:
    """The inputs' dtypes by name; Unsupported as `output_dtypes`."""
    return {name: _dtype("input", name, definition.inputs[name]) for name in sorted(definition.inputs)}


def input_specs(definition: Any) -> tuple[TensorSpec, ...]:
    """The inputs alone; Unsupported as in `signature_of`."""
    return tuple(_spec("input", name, definition.inputs[name], None) for name in sorted(definition.inputs))


def output_dtypes(definition: Any) -> dict[str, str]:
    """The outputs' dtypes by name; Unsupported for what is no dense tensor, or of a type that numpy lacks."""
    return {name: _dtype("output", name, definition.outputs[name]) for name in sorted(definition.outputs)}


def hides_outputs(definition: Any) -> bool:
    """Whether outputs of unknown rank are all that stands in the way."""
    try:
        dtypes, inputs = output_dtypes(definition), input_specs(definition)
    except TidegateError:
        return False
    return bool(inputs and dtypes) and any(_is_unranked(definition.outputs[name]) for name in dtypes)


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


def _dtype(role: str, name: str, info: Any) -> str:
    if info.WhichOneof("encoding") != "name":
        raise Unsupported(f"{role} {name!r} is no dense tensor: export a signature of dense tensors")
    return dtype_of(data_type(info))


def _is_unranked(info: Any) -> bool:
    return not info.HasField("tensor_shape") or bool(info.tensor_shape.unknown_rank)


def _spec(role: str, name: str, info: Any, size: int | None) -> TensorSpec:
    dtype = _dtype(role, name, info)
    if _is_unranked(info):
        raise Unsupported(f"{role} {name!r} has an unknown rank: export the signature with a shape, such as [None, 4]")
    shape = _shape(info)
    if not shape:
        raise Unsupported(f"{role} {name!r} is a scalar: every tensor needs the batch on axis 0")
    if shape[0] not in (-1, size):
        raise Unsupported(f"{role} {name!r} has shape {list(shape)}: its first axis must be the batch, of any size")
    return TensorSpec(name, dtype, (-1, *shape[1:]))
