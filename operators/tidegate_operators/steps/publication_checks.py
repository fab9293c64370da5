"""Checks that what a training job hands to `publish` fits together: signatures, example row, training columns.

Everything here reads and raises InvalidInput naming the column or input; nothing is written.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.example_bytes import is_b64, to_bytes, to_json
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec, default_name, inputs_by_name
from tidegate_serving.contract.tensors import PARTS

if TYPE_CHECKING:
    import pyarrow as pa

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)  # one slash: a Path leaves out the second


def check_repository(repository: Path | str) -> None:
    """InvalidInput for an address, such as one in an object store: as a path it would be a folder of such a name."""
    if _ADDRESS.match(str(repository)):
        raise InvalidInput(
            f"the repository {repository} is an address: publish to a folder, and give an object store its copy with "
            "`tidegate push DIRECTORY --store URL` or the `store` of an operator"
        )


def profiled_features(signatures: Mapping[str, Signature], event_time: str | None) -> tuple[str, ...]:
    """Inputs of the default signature whose distribution is profiled: one value per row, the event's time apart."""
    return tuple(
        spec.name
        for spec in signatures[default_name(signatures)].inputs
        if spec.name != event_time and all(size == 1 for size in spec.shape[1:])
    )


def plain_example(example: Mapping[str, Any]) -> dict[str, Any]:
    """The row in JSON's own types: numpy scalars and arrays become Python's, UTF-8 bytes become str, others `b64`."""
    return {name: _plain(value) for name, value in example.items()}


def check_example(example: Mapping[str, Any], signatures: Mapping[str, Signature]) -> None:
    """InvalidInput unless `example` has one usable value for each input of the default signature, and for nothing that
    no signature takes.
    """
    inputs = inputs_by_name(signatures)
    if missing := [name for name in signatures[default_name(signatures)].input_names if name not in example]:
        raise InvalidInput(f"the example lacks a value for input {', '.join(missing)}: give one value per input")
    unknown = [name for name in example if name not in inputs]
    if unknown:
        raise InvalidInput(f"the example has {', '.join(unknown)}, which no signature takes: remove it")
    for name, given in example.items():
        for value in _flat(given):
            if not _fits(value, inputs[name].dtype):
                raise InvalidInput(f"the example's value {value!r} for input {name} is no {inputs[name].dtype}")
        takers = [
            one for one in (signatures[default_name(signatures)], *signatures.values()) if name in one.input_names
        ]
        _check_shape(given, inputs[name], whole=takers[0].first_axis is FirstAxis.FREE)


def check_sample(sample: pa.Table, signatures: Mapping[str, Signature]) -> None:
    """InvalidInput unless the data that an example is taken from has a column for each input of the default
    signature."""
    missing = [one for one in signatures[default_name(signatures)].inputs if one.name not in sample.column_names]
    if missing:
        wide = [one for one in missing if any(size != 1 for size in one.shape[1:])]
        cure = f"; {_as_lists(wide[0])}" if wide else ""
        raise InvalidInput(
            f"the data lacks {', '.join(one.name for one in missing)} "
            f"(it has {', '.join(sample.column_names) or 'no columns'}): "
            f"its columns must bear the names of the model's inputs{cure}"
        )


def check_training(
    training: pa.Table, signatures: Mapping[str, Signature], label: str | None, event_time: str | None
) -> None:
    """InvalidInput unless the training data has rows and a column for each profiled input, label and event time."""
    wanted = [*profiled_features(signatures, event_time), *(name for name in (label, event_time) if name)]
    missing = [name for name in wanted if name not in training.column_names]
    if missing:
        raise InvalidInput(
            f"the training data lacks {', '.join(missing)} "
            f"(it has {', '.join(training.column_names) or 'no columns'}): "
            "its columns must bear the names of the signature's inputs, the label and the event time"
        )
    if training.num_rows == 0:
        raise InvalidInput(
            "the training data has no rows, of which no profile can be made: give data with rows, or none"
        )


def check_source(manifest: Manifest, directory: Path) -> None:
    """InvalidInput unless a Python model has one file that Python compiles, as it does to import it; nothing of it is
    run."""
    from tidegate_serving.platforms.platform import model_file

    if manifest.platform != "python":
        return
    file = model_file(manifest, directory, "python.file", (".py",))
    try:
        compile(file.read_bytes(), file.name, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        raise InvalidInput(
            f"{file.name}{line} is not valid {python}, so that it cannot be loaded: {error.msg}"
        ) from error
    except ValueError as error:
        raise InvalidInput(f"{file.name} is not valid Python, so that it cannot be loaded: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise InvalidInput(
            f"{file.name} is nested too deeply for Python, so that it cannot be loaded: split its longest expressions"
        ) from error


def _as_lists(spec: TensorSpec) -> str:
    """How data hold the input of several numbers a row."""
    size = " times ".join("any number" if one < 0 else str(one) for one in spec.shape[1:])
    return f"{spec.name} takes {size} values a row, so data need a column {spec.name} with a list of them in each row"


def _check_shape(given: Any, spec: TensorSpec, *, whole: bool) -> None:
    """InvalidInput where one row's value has not the shape that the signature says; `whole` takes no row apart."""
    wanted = spec.shape if whole else spec.shape[1:]
    if spec.dtype in PARTS:
        wanted = (*wanted, 2)
    try:
        shape = np.shape(given)
    except ValueError as error:
        raise InvalidInput(
            f"the example's value for input {spec.name} has rows of unequal length: even them"
        ) from error
    same = len(shape) == len(wanted) and all(size in (-1, there) for size, there in zip(wanted, shape, strict=True))
    if not (same or spec.unknown_rank):
        row = "the input" if whole else "a row of the input"
        raise InvalidInput(
            f"the example's value for input {spec.name} has shape {list(shape)}, but by the signature {row} has "
            f"{list(wanted)}: correct the example, or the signature's shape"
        )


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return to_json(value) if isinstance(value, bytes) else value


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _flat(item)]
    return [value]


def _fits(value: Any, dtype: str) -> bool:
    if dtype == "string":
        return isinstance(value, str) or (is_b64(value) and to_bytes(value) is not None)
    if dtype == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if dtype.startswith(("float", "complex")):
        return math.isfinite(value) and abs(value) <= float(np.finfo(dtype).max)
    return isinstance(value, int) and int(np.iinfo(dtype).min) <= value <= int(np.iinfo(dtype).max)
