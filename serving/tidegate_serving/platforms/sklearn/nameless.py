"""Estimators that were fitted on a DataFrame, as if it had been a matrix: the same answers without the names.

For every batch scikit-learn looks at the columns of a DataFrame several times over, which takes longer than most models
take. To most estimators these columns are nothing but numbers in an order, and a matrix has these too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_READ_COLUMNS = ("ColumnTransformer", "FunctionTransformer", "OneHotEncoder", "OrdinalEncoder", "TargetEncoder")
_NAMES = "feature_names_in_"


def nameless(fitted: Any) -> Any | None:
    """A copy that takes a matrix instead, with the columns in their order, and shares what was learned. None for what
    may do more with columns than read their numbers.
    """
    if not type(fitted).__module__.startswith("sklearn.") or "_sklearn_output_config" in vars(fitted):
        return None
    steps = getattr(fitted, "steps", None)
    if steps is not None:
        (name, first), *others = steps
        plain = nameless(first)
        return None if plain is None else _copy(fitted, steps=[(name, plain), *others])
    if type(fitted).__name__ in _READ_COLUMNS or any(hasattr(part, _NAMES) for part in _parts(vars(fitted))):
        return None
    return _copy(fitted)


def _parts(state: Mapping[str, Any]) -> Iterator[Any]:
    """All that an estimator holds, however deep: another that was fitted on columns by name may read these."""
    waiting, seen = list(state.values()), set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, np.ndarray) and part.dtype.kind == "O":
            waiting += part.ravel().tolist()
        else:
            yield part
            if type(part).__module__.startswith("sklearn."):
                waiting += getattr(part, "__dict__", {}).values()


def _copy(fitted: Any, **changed: Any) -> Any:
    made = object.__new__(type(fitted))
    made.__dict__.update({name: value for name, value in vars(fitted).items() if name != _NAMES} | changed)
    return made
