"""Checks inputs and outputs against a signature, in Python.

Inputs are checked here for the probe and the warm-up, as the native data plane checks those of clients; outputs are
checked here for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import DTYPES, FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import cut

_TEXT_KINDS = "OSUT"
_WHOLE = "iu"
_SHOWN = 100
_NUMPY_TYPES = {name: np.dtype(name) for name in DTYPES if name != "string"}


def check_inputs(signature: Signature, inputs: Mapping[str, Array]) -> int | None:
    """The number of rows, None where the request is one whole without rows.

    Raises InvalidInput naming the input that is missing, unknown or does not fit.
    """
    wanted = set(signature.input_names)
    if missing := sorted(wanted - inputs.keys()):
        raise InvalidInput(f"input {missing[0]!r} is missing: send {', '.join(signature.input_names)}")
    if unknown := sorted(inputs.keys() - wanted):
        raise InvalidInput(f"input {unknown[0]!r} is unknown: send {', '.join(signature.input_names)}")
    for spec in signature.inputs:
        _check_input(spec, inputs[spec.name], signature.first_axis)
    if signature.first_axis is FirstAxis.FREE:
        return None
    rows = {spec.name: len(inputs[spec.name]) for spec in signature.inputs}
    if len(set(rows.values())) == 1:
        return next(iter(rows.values()))
    if signature.first_axis is FirstAxis.ASSUMED:
        return None
    raise InvalidInput(f"inputs differ in their number of rows: {rows}")


def with_second_axis(signature: Signature, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs, with `[n]` as `[n, 1]` where that is the signature's shape: as the data plane takes requests."""
    if signature.first_axis is FirstAxis.FREE:
        return dict(inputs)
    flat = {spec.name for spec in signature.inputs if spec.shape == (-1, 1)}
    return {name: array.reshape(-1, 1) if array.ndim == 1 and name in flat else array for name, array in inputs.items()}


def _check_input(spec: TensorSpec, array: Array, axis: FirstAxis) -> None:
    dtype = "string" if array.dtype.kind in _TEXT_KINDS else array.dtype.name
    if dtype != spec.dtype:
        raise InvalidInput(f"input {spec.name!r} has dtype {dtype}: send {spec.dtype}")
    fits = _fits(array.shape, spec) if axis is not FirstAxis.ASSUMED else _fits_rows(array.shape, spec)
    if not fits:
        raise InvalidInput(f"input {spec.name!r} has shape {list(array.shape)}: send {list(spec.shape)}")


def check_outputs(
    id: ServableId, signature: Signature, rows: int | None, outputs: Mapping[str, Any]
) -> dict[str, Array]:
    """Outputs that the signature names, in its dtypes, C-contiguous; others are dropped.

    Raises ModelFailed where one is missing, has another number of rows or shape, or cannot be cast within its kind.
    Where the first axis is only assumed to be the batch, shapes are for the data plane to judge.
    """
    axis = signature.first_axis
    return {spec.name: _check_output(id, spec, rows, outputs, axis) for spec in signature.outputs}


def _check_output(
    id: ServableId, spec: TensorSpec, rows: int | None, outputs: Mapping[str, Any], axis: FirstAxis
) -> Array:
    try:
        value = outputs[spec.name]
    except (KeyError, TypeError) as error:
        raise ModelFailed(f"{id} gave no output {spec.name!r}: its model and its signature differ") from error
    if _is_as_declared(value, spec, rows):
        return value
    array = _as_array(id, spec, value)
    fits = (axis is not FirstAxis.BATCH or array.shape[:1] == (rows,)) and _fits(array.shape, spec)
    if axis is not FirstAxis.ASSUMED and not fits:  # told before it is cast: what repeats itself may be of any length
        raise ModelFailed(
            f"{id} gave output {spec.name!r} of shape {list(array.shape)}"
            f"{'' if rows is None else f' for {rows} rows'}, its signature says {list(spec.shape)}"
        )
    array = _cast(id, spec, array)
    return array if array.flags.c_contiguous else np.asarray(array, order="C")


def _is_as_declared(value: Any, spec: TensorSpec, rows: int | None) -> TypeGuard[Array]:
    """Whether an output is to the letter what its signature says, as nearly all are: nothing is to be done with it."""
    return (
        type(value) is np.ndarray
        and value.dtype is _NUMPY_TYPES.get(spec.dtype)
        and value.shape == (rows, *spec.shape[1:])
        and value.flags.c_contiguous
    )


def _as_array(id: ServableId, spec: TensorSpec, value: Any) -> Array:
    """What it is in memory: a class of somebody's own may say otherwise, and otherwise each time."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):  # asked last: numpy.ma is slow to import
            raise ModelFailed(
                f"{id} gave output {spec.name!r} with masked values: say what they are to be, such as by .filled(0)"
            )
        return np.asarray(value)
    try:
        return np.asarray(value, dtype=object if _holds_text(value) else None)
    except Exception as error:  # an object's `__array__` is anybody's code
        raise ModelFailed(f"{id} gave output {spec.name!r}, which is no array: {error}") from error


def _holds_text(value: Any) -> bool:
    """Whether a list's first element is text, which numpy would otherwise pad, strip or mix up."""
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, str | bytes)


def _cast(id: ServableId, spec: TensorSpec, array: Array) -> Array:
    if spec.dtype == "string":
        return _as_bytes(id, spec, array)
    wanted = _NUMPY_TYPES[spec.dtype]
    if array.dtype == wanted:
        return array
    if array.dtype.kind in _WHOLE and wanted.kind in _WHOLE:
        _check_range(id, spec, array)
    elif not np.can_cast(array.dtype, wanted, casting="same_kind"):
        raise ModelFailed(_other_dtype(id, spec, array))
    with np.errstate(all="ignore"):  # a model's own np.seterr is not about this
        return array.astype(wanted)


def _check_range(id: ServableId, spec: TensorSpec, array: Array) -> None:
    """ModelFailed for whole numbers that the signature's dtype does not hold, of which a cast would make others."""
    bounds = np.iinfo(spec.dtype)
    for found in (int(array.min()), int(array.max())) if array.size else ():
        if not bounds.min <= found <= bounds.max:
            raise ModelFailed(
                f"{id} gave output {spec.name!r} with {found}, which {spec.dtype} does not hold: publish the version "
                "with a wider dtype in its signature, or return smaller numbers"
            )


def _other_dtype(id: ServableId, spec: TensorSpec, array: Array) -> str:
    return (
        f"{id} gave output {spec.name!r} of dtype {array.dtype}, its signature says {spec.dtype}: return an array or a "
        f"list of {spec.dtype}"
    )


def _as_bytes(id: ServableId, spec: TensorSpec, array: Array) -> Array:
    if array.dtype.kind not in _TEXT_KINDS:
        raise ModelFailed(_other_dtype(id, spec, array))
    try:
        items = [item if isinstance(item, bytes) else _text(item) for item in array.ravel().tolist()]
    except ValueError as error:
        raise ModelFailed(f"{id} gave output {spec.name!r} with {error}: give text for every row") from error
    made = np.empty(len(items), dtype=object)
    made[:] = items
    return made.reshape(array.shape)


def _text(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    equal = item == item  # not for NaN, nor for pandas' NA, of which no bool comes
    if item is None or not (isinstance(equal, bool | np.bool_) and equal):
        raise ValueError(f"{cut(str(item), _SHOWN)} in it")
    return str(item).encode()


def _fits_rows(shape: tuple[int, ...], spec: TensorSpec) -> bool:
    """Whether rows fit, whatever their number; what has an unknown rank takes rows of single elements."""
    wanted = spec.shape or (-1,)
    return len(shape) == len(wanted) and all(
        want in (-1, size) for size, want in zip(shape[1:], wanted[1:], strict=True)
    )


def _fits(shape: tuple[int, ...], spec: TensorSpec) -> bool:
    if spec.unknown_rank:
        return True
    if len(shape) != len(spec.shape):
        return False
    for size, wanted in zip(shape, spec.shape, strict=True):  # noqa: SIM110  (per batch; all() takes twice as long)
        if wanted not in (-1, size):
            return False
    return True
