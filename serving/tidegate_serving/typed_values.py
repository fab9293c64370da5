"""Turns plain values from TOML, variables and command lines into the types that a dataclass declares.

The config and sources with tables of their own hand in dictionaries; out come frozen dataclasses, or InvalidInput with
the key, the value and the cure.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput

_WANTED = {Path: "a path in quotes", str: "a text in quotes", int: "a whole number", float: "a finite number"}
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}


def nearest(key: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known key most like `key`, or None."""
    found = difflib.get_close_matches(key, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def convert(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    """A dataclass of `kind` from values by field name."""
    types_by_name = typing.get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind) if field.metadata.get("config", True)]
    made: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
            raise InvalidInput(f"{where} has an unknown key {key!r}: {hint}")
        made[key] = _value(types_by_name[key], value, f"{where}: {key}")
    _check_complete(kind, made, where)
    try:
        return kind(**made)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.message}") from error


def _check_complete(kind: Any, made: Mapping[str, Any], where: str) -> None:
    for known in dataclasses.fields(kind):
        needed = known.default is dataclasses.MISSING and known.default_factory is dataclasses.MISSING
        if needed and known.name not in made:
            raise InvalidInput(f"{where} lacks the key {known.name!r}: add it")


def _value(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _optional(kind, value, where)
    if origin is tuple:
        return _list(typing.get_args(kind)[0], value, where)
    if origin is not None:
        return _table(typing.get_args(kind)[1], value, where)
    if dataclasses.is_dataclass(kind):
        if dataclasses.is_dataclass(value):
            return value
        return convert(kind, _mapping(value, where), where)
    return _scalar(kind, value, where)


def _optional(kind: Any, value: Any, where: str) -> Any:
    inner = [argument for argument in typing.get_args(kind) if argument is not type(None)]
    if len(inner) == len(typing.get_args(kind)):
        if isinstance(value, tuple(inner)):
            return value
        raise InvalidInput(f"{where} is {value!r}: use a text, a number, true or false")
    return None if value is None or value == "" else _value(inner[0], value, where)


def _list(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [part for part in value.split(os.pathsep) if part]
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{where} is {value!r}: use a list")
    return tuple(_value(kind, item, where) for item in value)


def _table(kind: Any, value: Any, where: str) -> dict[str, Any]:
    return {str(key): _value(kind, item, f"{where}.{key}") for key, item in _mapping(value, where).items()}


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{where} is {value!r}: use a table")
    return value


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if isinstance(value, str | Path) and "\0" in str(value):
        raise InvalidInput(f"{where} is {str(value)!r}: take the character 0 out of it")
    if kind is bool:
        return _boolean(value, where)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is str and isinstance(value, str):
        return value
    if kind in (int, float) and not isinstance(value, bool):
        try:
            number = kind(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"{where} is {value!r}: use {_WANTED[kind]}") from error
        if math.isfinite(number) and (number == value or isinstance(value, str)):
            return number
    raise InvalidInput(f"{where} is {value!r}: use {_WANTED.get(kind, kind.__name__)}")


def _boolean(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in _TRUE | _FALSE:
        return str(value).lower() in _TRUE
    raise InvalidInput(f"{where} is {value!r}: use true or false")
