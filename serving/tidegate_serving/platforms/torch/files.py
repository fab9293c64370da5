"""Reads PyTorch's three kinds of files into something that can be called with tensors in order.

An exported program also tells its signature. PyTorch is imported by the platform and passed as `torch`.
"""

from __future__ import annotations

import inspect
import logging
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, PermissionRefused, Unsupported
from tidegate_serving.contract.signature import DTYPES, SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.platforms.fixed_batch import fixed_batch
from tidegate_serving.platforms.platform import ALLOWING_PICKLES, ModelDescription

_ENDLESS = 2**31
_READING = threading.Lock()
"""PyTorch reads one exported program at a time, and fails where two threads ask it to."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TorchModel:
    """A module: the names of its arguments, those of them that it needs, and a function of tensors by these names.

    batch: the batch size for which it was exported, if it was for one only, or for multiples of one.
    least: the smallest batch that it takes.
    most: the largest batch that it takes, if there is one.
    outputs: names of what it gives, in order, where the file says so.
    held: bytes of its parameters and buffers.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    call: Callable[[Mapping[str, Any]], Any]
    batch: int | None = None
    least: int = 1
    most: int | None = None
    outputs: tuple[str, ...] = ()
    held: int = 0


def read_model(torch: Any, path: Path, device: Any, *, allow_pickle: bool) -> TorchModel:
    """The model in a file. ModelFailed for what PyTorch cannot read, PermissionRefused for a pickle without leave."""
    if path.suffix == ".pt2":
        return _exported(torch, _read_exported(torch, path), device)
    if path.suffix == ".pth" and not allow_pickle:
        raise PermissionRefused(
            f"{path} is a pickle, which can run any code: save it with torch.export, or {ALLOWING_PICKLES}"
        )
    try:
        if path.suffix == ".pt":
            return _scripted(torch.jit.load(str(path), map_location=device).eval())
        module = torch.load(path, map_location=device, weights_only=False)
    except Exception as error:
        raise ModelFailed(
            f"{path} cannot be read by PyTorch {torch.__version__}: a .pt file holds TorchScript, a .pth file a "
            f"pickled module; better export the module with torch.export to a .pt2 file ({_short(error)})"
        ) from error
    if not isinstance(module, torch.nn.Module):
        raise InvalidInput(f"{path} holds a {type(module).__name__}, no module: save the whole module, not its weights")
    return _pickled(module.eval())


def exported_signature(torch: Any, path: Path) -> ModelDescription:
    """What an exported program takes and gives; outputs that cannot be served are left out and logged.

    Unsupported for other files, for inputs without a batch, and where no output has one.
    """
    if path.suffix != ".pt2":
        raise Unsupported(f"{path} does not know its shapes: export it with torch.export, or write a signature as JSON")
    program = _read_exported(torch, path)
    size, (inputs, outputs) = _batch(program), _values(program)
    taken = dict(zip(_names(program), inputs, strict=True))
    takes = tuple(_spec(torch, path, name, value, size) for name, value in taken.items())
    specs, reasons = [], []
    for name, value in zip(_output_names(program, len(outputs)), outputs, strict=True):
        try:
            specs.append(_spec(torch, path, name, value, size))
        except Unsupported as error:
            reasons.append(str(error))
    if not specs:
        raise Unsupported("; ".join(reasons) or f"{path} gives nothing: export a module that answers with tensors")
    if reasons:
        _log.warning("left out of a signature: %s", "; ".join(reasons))
    return ModelDescription({SERVING_DEFAULT: Signature(takes, tuple(specs))})


def _read_exported(torch: Any, path: Path) -> Any:
    try:
        with _READING:
            return torch.export.load(path)
    except Exception as error:
        if _is_compiled(path):
            raise Unsupported(
                f"{path} was compiled for one kind of machine (AOTInductor): save the exported program itself, with "
                "torch.export.save"
            ) from error
        raise ModelFailed(f"{path} cannot be read by PyTorch {torch.__version__}: {_short(error)}") from error


def _is_compiled(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/aotinductor/" in name for name in archive.namelist())


def _exported(torch: Any, program: Any, device: Any) -> TorchModel:
    names, positional = _names(program), _positional(program)
    inputs, outputs = _values(program)
    if device.type != "cpu":
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(program, device)
    module = program.module()

    def call(tensors: Mapping[str, Any]) -> Any:
        fed = [
            tensors[name].to(torch.bfloat16) if getattr(value, "dtype", None) == torch.bfloat16 else tensors[name]
            for name, value in zip(names, inputs, strict=True)
        ]
        return module(*fed[:positional], **dict(zip(names[positional:], fed[positional:], strict=True)))

    given, (least, most) = tuple(_output_names(program, len(outputs))), _bounds(program, inputs)
    size = least if _in_multiples(inputs) else _batch(program)
    return TorchModel(names, names, call, size, least, most, given, _held(module))


def _scripted(module: Any) -> TorchModel:
    arguments = module.forward.schema.arguments[1:]
    names = tuple(str(argument.name) for argument in arguments)
    required = tuple(str(argument.name) for argument in arguments if not argument.has_default_value())
    return TorchModel(names, required, _calling(module, names), held=_held(module))


def _pickled(module: Any) -> TorchModel:
    parameters = [
        parameter
        for parameter in inspect.signature(module.forward).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    names = tuple(parameter.name for parameter in parameters)
    required = tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty)
    return TorchModel(names, required, _calling(module, names), held=_held(module))


def _calling(module: Any, names: Sequence[str]) -> Callable[[Mapping[str, Any]], Any]:
    """Calls a module whose arguments may have defaults: those behind one that is left out go by name."""

    def call(tensors: Mapping[str, Any]) -> Any:
        leading = list(takewhile(tensors.__contains__, names))
        named = {name: tensor for name, tensor in tensors.items() if name not in leading}
        return module(*(tensors[name] for name in leading), **named)

    return call


def _held(module: Any) -> int:
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def _values(program: Any) -> tuple[list[Any], list[Any]]:
    """What the exporter traced for inputs and outputs, in their order."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    told = program.graph_signature
    return [values.get(name) for name in told.user_inputs], [values.get(name) for name in told.user_outputs]


def _batch(program: Any) -> int | None:
    inputs, outputs = ([tuple(getattr(value, "shape", ())) for value in side] for side in _values(program))
    return fixed_batch(inputs, outputs)


def _bounds(program: Any, inputs: Sequence[Any]) -> tuple[int, int | None]:
    """The smallest and the largest batch of a dynamic first axis, such as `Dim("batch", min=4, max=64)` gives them."""
    axes = {str(value.shape[0]) for value in inputs if getattr(value, "shape", ())}
    bounds = [bounds for axis, bounds in program.range_constraints.items() if str(axis) in axes]
    least = max((int(one.lower) for one in bounds), default=1)
    known = [int(one.upper) for one in bounds if getattr(one.upper, "is_Integer", False) and int(one.upper) < _ENDLESS]
    # PyTorch says 2 where it has been told nothing, and takes 1 and 0 then too.
    return least if least > 2 else 1, min(known, default=None)


def _in_multiples(inputs: Sequence[Any]) -> bool:
    """Whether the first axis is computed of another size, as `4 * Dim("batch")` is."""
    sizes = [value.shape[0] for value in inputs if getattr(value, "shape", ())]
    return any(not isinstance(size, int) and not size.node.expr.is_Symbol for size in sizes)


def _names(program: Any) -> tuple[str, ...]:
    """Names of an exported program's inputs; those that were given by keyword keep their keywords."""
    positional, keywords = program.call_spec.in_spec.children()
    nested = [child for spec in (positional, keywords) for child in spec.children() if not child.is_leaf()]
    if nested:
        raise Unsupported("the exported program takes tensors inside of lists or dicts: export it with plain tensors")
    names = [str(name) for name in program.graph_signature.user_inputs]
    return (*names[: positional.num_children], *map(str, keywords.context or ()))


def _positional(program: Any) -> int:
    return int(program.call_spec.in_spec.children()[0].num_children)


def _output_names(program: Any, count: int) -> list[str]:
    spec = program.call_spec.out_spec
    if spec is not None and any(not child.is_leaf() for child in spec.children()):
        raise Unsupported("the exported program gives tensors inside of nested lists or dicts: give them in one dict")
    if spec is not None and not spec.is_leaf() and issubclass(spec.type, Mapping):
        return [str(name) for name in spec.context]
    return ["output"] if count == 1 else [f"output_{index}" for index in range(count)]


def _spec(torch: Any, path: Path, name: str, value: Any, size: int | None) -> TensorSpec:
    if not isinstance(value, torch.Tensor):
        raise Unsupported(f"{path}: {name!r} is no tensor: export the module with tensors only")
    shape = tuple(extent if isinstance(extent, int) else -1 for extent in value.shape)
    if not shape or shape[0] not in (-1, size):
        raise Unsupported(
            f"{path}: {name!r} has shape {list(shape)}: export it with a dynamic first axis, the batch, as "
            "dynamic_shapes=({0: torch.export.Dim.DYNAMIC},) says"
        )
    dtype = "float32" if value.dtype == torch.bfloat16 else str(value.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise Unsupported(f"{path}: {name!r} is {dtype}, which cannot be served: cast it in the module")
    return TensorSpec(name, dtype, (-1, *shape[1:]))


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
