"""Columns that hold more than one plain value in a row, such as structs and lists, read as plain ones to be compared.

The fields of a struct become columns of their own, `address.city`; a list of texts becomes one text of its elements in
the order of the alphabet, in brackets, so that a list is not taken for its only element; lists of lists of numbers
become one list; times of day and durations become seconds, times with a zone have microseconds, and whatever else is
no plain value becomes the text that DuckDB writes for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import ZONED_NANOSECONDS, Family, family, quote, text_literal
from tidegate_validation.statistics.vectors import is_vector

_LISTS = ("list", "array")
_SECONDS = ("time", "time_ns", "time with time zone", "interval")


def plain(relation: Relation) -> Relation:
    """The relation with plain columns and lists of numbers alone; itself where it has no others. InvalidInput where two
    would have the same name."""
    if all(_is_plain(kind) for kind in relation.types.values()):
        return relation
    found = relation.connection.sql(f"SELECT * FROM {relation.name} LIMIT 0")
    read = [
        one for name, kind in zip(found.columns, found.types, strict=True) for one in _read(name, quote(name), kind)
    ]
    names = [name for name, _ in read]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"a column and a field of a struct are both called {twice!r}: give one another name")
    return relation.view(f"{relation.name}_plain", dict(read))


def _read(name: str, sql: str, kind: Any) -> Iterator[tuple[str, str]]:
    """The plain columns that one is read as: SQL by name."""
    if kind.id == "struct":
        for field, inner in kind.children:
            yield from _read(f"{name}.{field}", f"struct_extract({sql}, {text_literal(field)})", inner)
    elif str(kind) == ZONED_NANOSECONDS:
        yield name, f"CAST({sql} AS TIMESTAMP WITH TIME ZONE)"
    elif _is_plain(str(kind)):
        yield name, sql
    elif kind.id in _LISTS:
        yield name, _of_list(sql, dict(kind.children)["child"])
    elif kind.id in _SECONDS:
        yield name, f"CAST(epoch({sql}) AS DOUBLE)"
    else:
        yield name, f"CAST({sql} AS VARCHAR)"


def _is_plain(kind: str) -> bool:
    return kind != ZONED_NANOSECONDS and (family(kind) is not Family.OPAQUE or is_vector(kind))


def _of_list(sql: str, inner: Any) -> str:
    if inner.id in _LISTS and is_vector(str(inner)):
        return f"flatten({sql})"
    return f"CAST(list_sort(CAST({sql} AS VARCHAR[])) AS VARCHAR)"
