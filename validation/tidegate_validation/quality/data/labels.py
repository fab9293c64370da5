"""Labels from a column of a table: numbers, or classes whatever their type, and what task they make.

`check_label` is asked before any gate runs, so that a label that cannot be used is reported as the user's mistake at
once and not as a gate's error later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.evaluation import Task
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import CategoryBins, DiscreteBins
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.tables import is_text

_PAIRS = ({"0", "1"}, {"-1", "1"}, {"1", "2"})
_MANY = 50


@dataclass(frozen=True, slots=True)
class LabelHints:
    """What else tells the task: the policy's `task` (or auto), `positive` class and whether rows have queries; how many
    `columns` of scores a model answers (None: unknown), whether they are whole numbers, the `classes` that the models
    name, and values `known` from other data.
    """

    task: str = "auto"
    positive: str = ""
    queries: bool = False
    columns: int | None = 1
    whole_numbers: bool = False
    classes: Sequence[str] = ()
    known: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Labels:
    """The task, the table's `rows` that have a label, and their `values`, shape [n]: numbers, or places in `classes`.

    Of two classes the second is the positive one; `note` says how it was found where nobody named it.
    """

    task: str
    rows: Integers
    values: Floats
    classes: tuple[str, ...] = ()
    note: str = ""


def check_label(table: Any, label: str) -> None:
    """Raises InvalidInput unless the pyarrow.Table has the column and its values can be told apart or computed with."""
    import pyarrow as pa

    if label not in table.column_names:
        raise InvalidInput(f"held-out data lacks the label {label!r}: add it, or name another label")
    kind = table.schema.field(label).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (is_text(plain) or _is_number(plain) or pa.types.is_boolean(plain)):
        raise InvalidInput(
            f"label {label!r} has type {kind}: the quality gate judges by numbers, texts and truth values; convert the "
            "label, or leave quality out of `run` and `required` in the policy"
        )


def read_labels(table: Any, label: str, hints: LabelHints) -> Labels:
    """Labels of a pyarrow.Table. Raises InvalidInput where the column or the hints do not fit one another."""
    check_label(table, label)
    if hints.task != "auto" and hints.task not in tuple(Task):
        raise InvalidInput(f"quality.task is {hints.task!r}: use auto, {', '.join(Task)}")
    rows, texts, numbers = _columns(table, label)
    distinct = _ordered(set(texts.categories))
    task = _task(hints, distinct, numeric=numbers is not None)
    if task in (Task.REGRESSION, Task.RANKING):
        if numbers is None:
            raise InvalidInput(f"label {label!r} holds text: the task {task} needs numbers")
        return Labels(task, rows, numbers)
    if task == Task.MULTICLASS:
        classes = _ordered({*distinct, *hints.classes, *hints.known})
        return Labels(task, rows, texts.places(classes), tuple(classes))
    return _binary(label, rows, texts, hints)


def class_text(value: Any) -> str:
    """A class as text, the same for `b"a"` and `"a"`, for 1, 1.0 and True."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def distinct_texts(table: Any, label: str) -> list[str]:
    """All values of a column of a pyarrow.Table, as classes; none where they are too many or there is no column."""
    if label not in table.column_names:
        return []
    values = [class_text(value) for value in table[label].unique().to_pylist() if value is not None]
    return values if len(values) <= 1000 else []


def profiled_texts(profile: Profile, label: str) -> list[str]:
    """All values of the label that training held, as classes; none where they are numbers of a range, or too many."""
    bins = profile.features[label].bins if label in profile.features else None
    if isinstance(bins, DiscreteBins):
        return [class_text(value) for value in bins.values]
    return [*bins.top, *bins.others] if isinstance(bins, CategoryBins) and bins.complete else []


@dataclass(frozen=True, slots=True)
class _Texts:
    categories: list[str]
    codes: Integers

    def places(self, classes: Sequence[str]) -> Floats:
        order = {name: place for place, name in enumerate(classes)}
        return np.array([order[name] for name in self.categories], dtype=np.float64)[self.codes]


def _columns(table: Any, label: str) -> tuple[Integers, _Texts, Floats | None]:
    """Rows with a label; their values as texts; and as numbers, None where they are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table[label].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    present = pc.is_valid(column)
    if pa.types.is_floating(column.type):
        present = pc.fill_null(pc.and_(present, pc.is_finite(column)), False)
    rows = np.flatnonzero(present.to_numpy(zero_copy_only=False)).astype(np.int64)
    column = column.filter(present)
    encoded = column.dictionary_encode()
    names = [class_text(value) for value in encoded.dictionary.to_pylist()]
    categories = sorted(set(names))
    merged = np.array([categories.index(name) for name in names] if len(names) <= _MANY else range(len(names)))
    texts = _Texts(categories if len(names) <= _MANY else names, merged[encoded.indices.to_numpy()].astype(np.int64))
    if is_text(column.type):
        return rows, texts, None
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return rows, texts, column.to_numpy(zero_copy_only=False).astype(np.float64)


def _task(hints: LabelHints, distinct: Sequence[str], *, numeric: bool) -> str:
    if hints.task != "auto":
        return hints.task
    if hints.queries:
        return Task.RANKING
    if set(distinct) in _PAIRS or set(distinct) < _PAIRS[0] or (not numeric and len(distinct) <= 2):
        several = len({*hints.classes, *distinct, *(() if numeric else hints.known)}) > 2
        return Task.MULTICLASS if several else Task.BINARY
    if not numeric:
        return Task.MULTICLASS
    whole = all(name.lstrip("-").isdigit() for name in distinct)
    classes = hints.columns is None or hints.columns > 1 or bool(hints.classes)
    few = hints.whole_numbers and len(distinct) <= _MANY
    return Task.MULTICLASS if whole and (classes or few) else Task.REGRESSION


def _binary(label: str, rows: Integers, texts: _Texts, hints: LabelHints) -> Labels:
    others = hints.classes or hints.known
    distinct = _ordered({*texts.categories, *(others if len(set(others)) == 2 else ())})
    if len(distinct) > 2:
        raise InvalidInput(
            f"label {label!r} holds {len(distinct)} different values, the task binary has two: set quality.task to "
            "multiclass or regression"
        )
    if set(distinct) < _PAIRS[0]:
        distinct = ["0", "1"]
    if len(distinct) < 2:
        distinct = ["", *distinct]
    positive, note = hints.positive, ""
    if not positive:
        positive = distinct[1]
        if distinct != ["0", "1"]:
            note = f"`{positive}` counts as the positive class, the last in order; name one under quality.positive"
    elif class_text(positive) not in distinct:
        raise InvalidInput(f"quality.positive is {positive!r}, but label {label!r} holds {', '.join(distinct)}")
    other = next(name for name in distinct if name != positive)
    return Labels(Task.BINARY, rows, texts.places((other, positive)), (other, positive), note)


def _ordered(names: set[str]) -> list[str]:
    """By number where all are numbers, else by letter."""
    if all(name.lstrip("-").isdigit() for name in names):
        return sorted(names, key=int)
    return sorted(names)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
