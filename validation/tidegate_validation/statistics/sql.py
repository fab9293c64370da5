"""Small pieces of SQL text: quoted names, literals, and how a column of any stored type is read as number or text.

DuckDB and Spark both read them.
"""

from __future__ import annotations

import enum

_INTEGERS = frozenset(f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"))
_FLOATS = frozenset(("FLOAT", "REAL", "DOUBLE", "HALF"))

ZONED_NANOSECONDS = "TIMESTAMPTZ_NS"
"""Of this type, in which pandas keeps times with a zone, DuckDB knows no Unix seconds."""


class Family(enum.StrEnum):
    """What a stored type means to the gates; two types of one family can be compared."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    TIME = "time"
    TEXT = "text"
    OPAQUE = "opaque"

    @property
    def numeric(self) -> bool:
        """Whether values can be read as numbers."""
        return self in (Family.BOOLEAN, Family.INTEGER, Family.FLOAT, Family.TIME)


def family(sql_type: str) -> Family:
    """The family of a DuckDB type name such as `BIGINT` or `TIMESTAMP WITH TIME ZONE`."""
    name = sql_type.upper()
    if name == "BOOLEAN":
        return Family.BOOLEAN
    if name in _INTEGERS or name in ("HUGEINT", "UHUGEINT"):
        return Family.INTEGER
    if name in _FLOATS or name.startswith("DECIMAL"):
        return Family.FLOAT
    if name.startswith("TIMESTAMP") or name == "DATE":
        return Family.TIME
    if name in ("VARCHAR", "BLOB") or name.startswith("ENUM"):
        return Family.TEXT
    return Family.OPAQUE


def quote(name: str) -> str:
    """A column or table name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A text as a VARCHAR literal."""
    return "'" + value.replace("'", "''") + "'"


def literal(value: float) -> str:
    """A finite number as a DOUBLE literal that loses no digit."""
    return f"CAST({value!r} AS DOUBLE)"


def as_number(column: str, sql_type: str) -> str:
    """SQL that reads a column of a numeric family as DOUBLE; times become Unix seconds."""
    name = quote(column)
    kind = family(sql_type)
    if kind is Family.TIME:
        moment = f"CAST({name} AS TIMESTAMP WITH TIME ZONE)" if sql_type.upper() == ZONED_NANOSECONDS else name
        return f"CAST(epoch({moment}) AS DOUBLE)"
    if kind is Family.BOOLEAN:
        return f"CAST(CAST({name} AS TINYINT) AS DOUBLE)"
    return f"CAST({name} AS DOUBLE)"


def as_text(column: str, sql_type: str) -> str:
    """SQL that reads a text column as VARCHAR; bytes that are no UTF-8 become their hex digits."""
    name = quote(column)
    if sql_type.upper() == "BLOB":
        return f"coalesce(TRY(decode({name})), hex({name}))"
    return f"CAST({name} AS VARCHAR)"


def hash_of(value: str) -> str:
    """SQL for a whole number by which texts are told apart, the same on every machine."""
    return f"md5_number_lower({value})"
