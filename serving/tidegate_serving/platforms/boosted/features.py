"""Named columns, or one matrix, as the 2-D array of numbers that boosted trees take, in the model's own order.

A booster describes its `Features`; a `FeaturePlan` per signature makes the array of each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.contract.tensors import Array

MATRIX = "x"


@dataclass(frozen=True, slots=True)
class Features:
    """What a model says of its features: how many, their names if it has any, and the categories of some, by name.

    Categories are numbers or bytes. A value that is none of them is looked up again as `spelled_otherwise` has it; one
    that the model still does not know counts as missing.
    """

    count: int
    names: tuple[str, ...] | None
    dtype: str
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    spelled_otherwise: Callable[[Any], Any] | None = None

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of a signature that the model alone suggests."""
        if self.names is None:
            return (TensorSpec(MATRIX, self.dtype, (-1, self.count)),)
        return tuple(TensorSpec(name, self._dtype_of(name)) for name in self.names)

    def _dtype_of(self, name: str) -> str:
        categories = self.categories.get(name, ())
        return "string" if any(isinstance(category, bytes) for category in categories) else self.dtype


class FeaturePlan:
    """Makes the array for one signature. InvalidInput where the two do not fit."""

    def __init__(self, manifest: Manifest, name: str, features: Features) -> None:
        signature = manifest.signatures[name]
        self._dtype = np.dtype(features.dtype)
        self._codes = {
            column: {category: code for code, category in enumerate(categories)}
            for column, categories in features.categories.items()
        }
        self._otherwise = features.spelled_otherwise or (lambda value: value)
        self._matrix: str | None = None
        columns = [spec for spec in signature.inputs if not _is_extra(spec, manifest, features)]
        if len(columns) == 1 and len(columns[0].shape) == 2:
            self._matrix = columns[0].name
            _check_width(manifest, columns[0], features)
        self._columns = _ordered(manifest, name, signature, columns, features)

    def array(self, inputs: Mapping[str, Array]) -> Array:
        """Rows by features."""
        if self._matrix is not None:
            return inputs[self._matrix].astype(self._dtype, copy=False)
        first = inputs[self._columns[0]]
        made = np.empty((len(first), len(self._columns)), dtype=self._dtype)
        for index, name in enumerate(self._columns):
            made[:, index] = self._numbers(name, inputs[name])
        return made

    def _numbers(self, name: str, column: Array) -> Any:
        codes = self._codes.get(name)
        if codes is None:
            return column.reshape(len(column))
        values = column.reshape(len(column)).tolist()
        return [codes[value] if value in codes else codes.get(self._otherwise(value), np.nan) for value in values]


def _is_extra(spec: TensorSpec, manifest: Manifest, features: Features) -> bool:
    return spec.name == manifest.event_time and spec.name not in (features.names or ())


def _check_width(manifest: Manifest, spec: TensorSpec, features: Features) -> None:
    if spec.shape[1] != features.count:
        raise InvalidInput(
            f"input {spec.name!r} of {manifest.id} has shape {list(spec.shape)}, its model takes {features.count} "
            f"features: use [-1, {features.count}]"
        )


def _ordered(
    manifest: Manifest, name: str, signature: Signature, columns: Sequence[TensorSpec], features: Features
) -> list[str]:
    if len(columns) == 1 and len(columns[0].shape) == 2:
        return []
    given = [spec.name for spec in columns]
    _check_columns(manifest, columns, features)
    if features.names is None:
        if len(given) != features.count:
            raise InvalidInput(
                f"{manifest.id} takes {features.count} features, signature {name!r} has {len(given)} inputs"
            )
        return given
    missing = sorted(set(features.names) - set(given))
    if missing:
        raise InvalidInput(f"{manifest.id} was trained on {missing[0]!r}, which signature {name!r} does not have")
    unused = sorted(set(given) - set(features.names))
    if unused:
        raise InvalidInput(f"{manifest.id} was not trained on {unused[0]!r}, which signature {name!r} has")
    return list(features.names)


def _check_columns(manifest: Manifest, columns: Sequence[TensorSpec], features: Features) -> None:
    for spec in columns:
        if len(spec.shape) > 2 or spec.shape[1:] not in ((), (1,)):
            raise InvalidInput(f"input {spec.name!r} of {manifest.id} has shape {list(spec.shape)}: use one column")
        if spec.dtype == "string" and spec.name not in features.categories:
            raise InvalidInput(f"input {spec.name!r} of {manifest.id} is a string, its model takes numbers there")
