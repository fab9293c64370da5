"""The same example in both tables, by its keys: which columns differ for how many examples, and how.

Two numbers are the same within float noise, whole numbers where they are equal. This sees what no distribution shows,
such as yesterday's value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.paired import PairCause, explain_pairs, told_in_moments
from tidegate_validation.statistics.arrays import Floats, Integers, Mask, to_numpy
from tidegate_validation.statistics.sql import quote
from tidegate_validation.tables import is_text, seconds_of

if TYPE_CHECKING:
    import pyarrow as pa

CHECK = "same example"
_SIDES = ("training", "served")
SUBJECT = "rows"
_RELATIVE = 1e-6
_TOLERATED = 0.001
_SURE = 1.645
_EXAMPLES = 5
_LEAST_SHARE = 0.5
_LEAST_NAMED = 0.5
_NEARLY_ALL = 0.9
_DAY, _HOUR = 86_400.0, 3600.0
_SAME_MOMENT = 1.0 / _HOUR
"""Hours by which time stamps may differ because one side keeps less of the second."""


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Rows of both tables that are one example: row numbers, and where each stands in the order of time."""

    before: pa.Table
    now: pa.Table
    first: Integers
    second: Integers
    keys: Sequence[str]


def compare_pairs(before: pa.Table, now: pa.Table, keys: Sequence[str], time: str | None) -> list[Finding]:
    """One finding for each column of which too many examples differ, or whose examples cannot be compared, and one
    where few examples are in both tables.

    Columns hold numbers, texts, moments or lists of numbers. Only one finding that says so where a table has many
    different rows for most keys, which then name no example.
    """
    for which, table in (("training", before), ("what is served", now)):
        named, rows = _distinct(table, keys)
        if named < _LEAST_NAMED * rows:
            sentence = (
                f"many examples have the same {_words(keys)}: {which} has {named:,} of them for {rows:,} different "
                "rows, so no example could be compared"
            )
            return [Finding(CHECK, SUBJECT, Outcome.INCONCLUSIVE, sentence)]
    first, second = _join(before, now, keys)
    pairs = _Pairs(before, now, first, second, keys)
    if not len(first):
        sentence = f"no row of one table has the {_words(keys)} of a row of the other, so no example could be compared"
        return [Finding(CHECK, SUBJECT, Outcome.INCONCLUSIVE, sentence)]
    names = [name for name in before.column_names if name in now.column_names and name not in (*keys, time)]
    lists = [name for name in names if _is_list(before, name) and _is_list(now, name)]
    columns = {
        name: values for name in names if name not in lists and (values := _values(before, now, name)) is not None
    }
    found = [one for name in columns if (one := _of_column(name, columns, pairs, time)) is not None]
    found += [one for name in lists if (one := _of_list(name, pairs)) is not None]
    found += [_not_compared(before, now, name) for name in names if name not in columns and name not in lists]
    missing = 1 - len(first) / min(before.num_rows, now.num_rows)
    if missing > _LEAST_SHARE:
        sentence = f"only {len(first):,} of {now.num_rows:,} examples are in both tables by their {_words(keys)}"
        found.append(Finding(CHECK, SUBJECT, Outcome.WARN, sentence, number=missing, limit=_LEAST_SHARE))
    return found


def _distinct(table: pa.Table, keys: Sequence[str]) -> tuple[int, int]:
    """How many different keys a table has, and how many different rows: those that oversampling repeats count once."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("examples", table)
        names = ", ".join(quote(key) for key in keys)
        values = connection.execute(f"SELECT count(*) FROM (SELECT DISTINCT {names} FROM examples)").fetchall()[0][0]
        if values >= _LEAST_NAMED * table.num_rows:
            return values, table.num_rows
        return values, connection.execute("SELECT count(*) FROM (SELECT DISTINCT * FROM examples)").fetchall()[0][0]


def _words(keys: Sequence[str]) -> str:
    return " and ".join(f"`{key}`" for key in keys)


def _join(before: pa.Table, now: pa.Table, keys: Sequence[str]) -> tuple[Integers, Integers]:
    """Row numbers of each example; where a key occurs several times, the first of each table counts."""
    import duckdb
    import pyarrow as pa

    names = ", ".join(quote(key) for key in keys)
    with duckdb.connect() as connection:
        for name, table in (("before_rows", before), ("now_rows", now)):
            numbered = table.select(list(keys)).append_column(
                "tidegate row", pa.array(range(table.num_rows), pa.int64())
            )
            connection.register(name, numbered)
        one = 'SELECT {0}, min("tidegate row") AS place FROM {1} GROUP BY {0}'
        found = connection.execute(
            f"SELECT b.place AS first, n.place AS second FROM ({one.format(names, 'before_rows')}) AS b "
            f"JOIN ({one.format(names, 'now_rows')}) AS n USING ({names}) ORDER BY b.place"
        ).fetchnumpy()
    return np.asarray(found["first"], dtype=np.int64), np.asarray(found["second"], dtype=np.int64)


Column = Floats | npt.NDArray[np.object_]


def _values(before: pa.Table, now: pa.Table, name: str) -> tuple[Column, Column] | None:
    """Both columns as numbers, NaN for what is missing, or as texts; moments as hours since training's first day.

    None for types that cannot be compared.
    """
    kinds = [table.schema.field(name).type for table in (before, now)]
    if all(_is_moment(table, name) for table in (before, now)):
        seconds = [seconds_of(table[name]) for table in (before, now)]
        start = np.floor(np.nanmin(seconds[0]) / _DAY) * _DAY if np.isfinite(seconds[0]).any() else 0.0
        return (seconds[0] - start) / _HOUR, (seconds[1] - start) / _HOUR
    if all(is_text(kind) for kind in kinds):
        texts = [np.array(table[name].to_pylist(), dtype=object) for table in (before, now)]
        return texts[0], texts[1]
    if any(is_text(kind) for kind in kinds):
        return None
    numbers = [_numbers(table[name]) for table in (before, now)]
    return None if numbers[0] is None or numbers[1] is None else (numbers[0], numbers[1])


def _numbers(column: Any) -> Floats | None:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def differing(x: Column, y: Column) -> Mask:
    """Which values differ by more than float noise, or are missing on one side only."""
    if x.dtype == object or y.dtype == object:
        return np.asarray(x != y, dtype=np.bool_)
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    scale = float(np.nanmedian(np.abs(a))) if np.isfinite(a).any() else 0.0
    with np.errstate(invalid="ignore"):
        far = np.abs(a - b) > _RELATIVE * np.maximum(np.abs(a), np.abs(b)) + 1e-9 * scale
    return np.asarray(np.where(np.isnan(a) | np.isnan(b), np.isnan(a) != np.isnan(b), far | (np.isinf(a) & (a != b))))


def _of_column(
    name: str, columns: Mapping[str, tuple[Column, Column]], pairs: _Pairs, time: str | None
) -> Finding | None:
    before, now = columns[name]
    x, y = before[pairs.first], now[pairs.second]
    far = differing(x, y)
    whole = _whole_numbers(name, pairs)
    wrong = far if whole is None else whole.wrong
    if _is_moment(pairs.before, name):
        wrong &= ~(np.abs(np.asarray(x - y, dtype=np.float64)) <= _SAME_MOMENT)
    if not wrong.any():
        return None
    if whole is not None and (wrong & far).sum() < _NEARLY_ALL * wrong.sum():
        # What floats take for noise is too little for them to tell why.
        return _differ(name, wrong, whole.constant_offset(), _examples(name, x, y, wrong, pairs))
    others = {other: columns[other][0][pairs.first] for other in columns if other != name}
    cause = explain_pairs(x, y, wrong, others, _earlier(before, pairs, time), _join_keys(pairs, time))
    if _is_moment(pairs.before, name):
        cause = told_in_moments(cause, lambda value: _moment_of(name, y == value, pairs))
    return _differ(name, wrong, cause, _examples(name, x, y, wrong, pairs))


@dataclass(frozen=True, slots=True)
class _WholeNumbers:
    """A column of whole numbers in both tables, to the last digit: which differ, or are missing on one side only, and
    by how much those do that are there on both."""

    wrong: Mask
    steps: Integers

    def constant_offset(self) -> PairCause | None:
        """That nearly all differ by the same."""
        steps, counts = np.unique(self.steps, return_counts=True)
        if not len(steps) or counts.max() < _NEARLY_ALL * self.wrong.sum():
            return None
        step = int(steps[counts.argmax()])
        return PairCause("constant offset", f"training's plus {step}", {"offset": step})


def _whole_numbers(name: str, pairs: _Pairs) -> _WholeNumbers | None:
    """None for a column of other types."""
    import pyarrow as pa

    return _compared_exactly(
        pairs.before[name].take(pa.array(pairs.first)), pairs.now[name].take(pa.array(pairs.second))
    )


def _compared_exactly(before: pa.ChunkedArray, now: pa.ChunkedArray) -> _WholeNumbers | None:
    import pyarrow as pa

    if not (pa.types.is_integer(before.type) and pa.types.is_integer(now.type)):
        return None
    x, y = (side.fill_null(0).to_numpy() for side in (before, now))
    missing, lacking = (side.is_null().to_numpy() for side in (before, now))
    both = ~missing & ~lacking & (x != y)
    steps = y[both].astype(np.int64) - x[both].astype(np.int64)
    return _WholeNumbers(both | (missing != lacking), steps)


def _differ(name: str, wrong: Mask, cause: PairCause | None, examples: list[dict[str, Any]]) -> Finding:
    """The finding about a column of which some examples are wrong."""
    count, rows = int(wrong.sum()), len(wrong)
    low, high = _wilson(count, rows)
    outcome = Outcome.FAIL if low > _TOLERATED and count > 2 else Outcome.WARN
    share = count / rows
    said = f": {cause.words}" if cause else ""
    sentence = f"`{name}`: {100 * share:.3g} % of the examples have another value than in training{said}"
    return Finding(
        CHECK,
        name,
        outcome,
        sentence,
        number=share,
        interval=(min(low, share), max(high, share)),
        limit=_TOLERATED,
        cause=None if cause is None else {"kind": cause.kind, "share": round(share, 4), **cause.details},
        example={"pairs": examples},
    )


def _not_compared(before: pa.Table, now: pa.Table, name: str) -> Finding:
    is_as = [
        "holds nothing" if table[name].null_count == len(table) else f"is {table.schema.field(name).type}"
        for table in (before, now)
    ]
    sentence = (
        f"`{name}`: its examples cannot be compared one by one, as it {is_as[0]} in training and {is_as[1]} in what "
        "is served"
    )
    return Finding(CHECK, name, Outcome.INCONCLUSIVE, sentence)


def _is_list(table: pa.Table, name: str) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(table.schema.field(name).type))


def _of_list(name: str, pairs: _Pairs) -> Finding | None:
    """Lists of numbers differ where they are of another length, or where one of their numbers is another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    x, y = pairs.before[name].take(pa.array(pairs.first)), pairs.now[name].take(pa.array(pairs.second))
    lengths, others = (np.asarray(pc.fill_null(pc.list_value_length(side), -1)) for side in (x, y))
    wrong = np.asarray(lengths != others, dtype=np.bool_)
    same = np.flatnonzero(~wrong & (lengths > 0))
    if len(same):
        sides = [pc.list_flatten(side.take(pa.array(same))) for side in (x, y)]
        whole = _compared_exactly(*sides)
        numbers = (to_numpy(side).astype(np.float64) for side in sides)
        starts = np.cumsum(lengths[same]) - lengths[same]
        wrong[same] = np.logical_or.reduceat(differing(*numbers) if whole is None else whole.wrong, starts)
    if not wrong.any():
        return None
    examples = [
        {**_keys_of(pairs, place), "training": x[int(place)].as_py(), "served": y[int(place)].as_py()}
        for place in np.flatnonzero(wrong)[:_EXAMPLES]
    ]
    return _differ(name, wrong, None, examples)


def _join_keys(pairs: _Pairs, time: str | None) -> dict[str, Column]:
    """Keys and time of each example, by which its row may have been joined with others."""
    names = [name for name in (*pairs.keys, time) if name is not None and name in pairs.before.column_names]
    return {name: np.array(pairs.before[name].to_pylist(), dtype=object)[pairs.first] for name in names}


def _earlier(before: Column, pairs: _Pairs, time: str | None) -> list[Column]:
    """Training's column as it was one to three rows earlier: in the table's order, in time, and per entity of a key."""
    orders = [np.arange(len(before))]
    if time is not None and time in pairs.before.column_names:
        moment = np.asarray(pairs.before[time].to_numpy(zero_copy_only=False))
        orders.append(np.argsort(moment, kind="stable"))
    found = []
    for order in orders:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        lagged = (np.clip(place[pairs.first] - lag, 0, len(order) - 1) for lag in (1, 2, 3, -1))
        found += [before[order[rows]] for rows in lagged]
    entities = pairs.keys if len(pairs.keys) > 1 else ()
    return [*found, *(_before_in_entity(before, pairs, key, orders[-1]) for key in entities)]


def _before_in_entity(before: Column, pairs: _Pairs, key: str, order: Integers) -> Column:
    """Training's value in the row before of the same entity; the row's own where there is none."""
    entity = np.unique(np.asarray(pairs.before[key].to_pylist()).astype(str), return_inverse=True)[1]
    sorted_rows = order[np.argsort(entity[order], kind="stable")]
    same = np.r_[False, entity[sorted_rows][1:] == entity[sorted_rows][:-1]]
    previous = np.arange(len(before))
    previous[sorted_rows[same]] = sorted_rows[np.flatnonzero(same) - 1]
    return before[previous[pairs.first]]


def _wilson(count: int, rows: int) -> tuple[float, float]:
    """Wilson's (1927) interval of a share, 5 % beyond each end."""
    share, z = count / rows, _SURE
    middle = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows)) / (1 + z * z / rows)
    return max(0.0, middle - half), min(1.0, middle + half)


def _is_moment(table: pa.Table, name: str) -> bool:
    """Whether a column holds time stamps or dates."""
    import pyarrow as pa

    kind = table.schema.field(name).type
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _moment_of(name: str, where: Mask, pairs: _Pairs) -> str:
    """What is served in the first of the examples that a mask has."""
    return str(pairs.now[name][int(pairs.second[np.flatnonzero(where)[0]])])


def _keys_of(pairs: _Pairs, place: int) -> dict[str, Any]:
    row = int(pairs.first[place])
    return {key: pairs.before[key][row].as_py() for key in pairs.keys}


def _examples(name: str, x: Column, y: Column, wrong: Mask, pairs: _Pairs) -> list[dict[str, Any]]:
    import pyarrow as pa

    found = []
    for place in np.flatnonzero(wrong)[:_EXAMPLES]:
        keys = _keys_of(pairs, place)
        values = (pairs.before[name][int(pairs.first[place])], pairs.now[name][int(pairs.second[place])])
        if _is_moment(pairs.before, name):
            told: list[Any] = [str(one) if one.is_valid else None for one in values]
        elif all(pa.types.is_integer(one.type) for one in values):
            told = [one.as_py() for one in values]
        else:
            told = [_plain(x[place]), _plain(y[place])]
        found.append({**keys, **dict(zip(_SIDES, told, strict=True))})
    return found


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bytes):
        return value
    return float(value) if math.isfinite(value) else None
