"""Reads plain values, as TOML files, variables and command lines hold them, into frozen dataclasses.

The engine's config, the gates' policy and tables of extra sources are read here. What is wrong is said with key, value
and cure; an unknown key with the nearest known one.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import math
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.plain_file import read_given

NOT_A_KEY = {"config": False}
"""Metadata of a field that is no key."""
_KINDS = {Path: "a path in quotes", str: "a text in quotes", int: "a whole number", float: "a finite number"}
_TRUE = {"1", "true", "t", "yes", "y", "on"}
_FALSE = {"0", "false", "f", "no", "n", "off"}
_Config = TypeVar("_Config")
_Value = TypeVar("_Value")
Bounds = tuple[float, float]


def read_config(kind: type[_Config], values: Mapping[str, Any], where: str, *, texts: bool = False) -> _Config:
    """A dataclass of `kind` from values by field name; `where` names them in messages.

    With `texts` numbers, truth values and lists may come as text, as variables hold them, and an empty text is None.
    InvalidInput for an unknown or missing key, a value of another type, and whatever `kind` itself refuses.
    """
    return cast("_Config", _Reader(texts).table(kind, values, where))


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A TOML file, which messages call `what`. NotFound or InvalidInput naming the file."""
    try:
        return tomllib.loads(read_given(path, what, "check the path, or leave it out for the defaults").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{what} {path} is not TOML ({error}): correct it") from error


def keys(kind: Any) -> list[str]:
    """The names of all keys of a dataclass, in their order."""
    return [field.name for field in dataclasses.fields(kind) if field.metadata.get("config", True)]


def within(bounds: Bounds, default: _Value) -> _Value:
    """A field of a dataclass whose number lies within `bounds`; in a list or table each."""
    if isinstance(default, dict):
        return cast("_Value", dataclasses.field(default_factory=default.copy, metadata=bounded(bounds)))
    return dataclasses.field(default=default, metadata=bounded(bounds))


def bounded(bounds: Bounds) -> dict[str, Bounds]:
    """The metadata of such a field, for one without a default."""
    return {"bounds": bounds}


def check_bounds(config: Any) -> None:
    """InvalidInput, naming the key, for a number of a dataclass that lies out of the bounds of its field."""
    for known in dataclasses.fields(config):
        if (bounds := known.metadata.get("bounds")) is None:
            continue
        value = getattr(config, known.name)
        if isinstance(value, Mapping):
            for key, item in value.items():
                _check(f"{known.name}.{key}", item, *bounds)
        else:
            for item in value if isinstance(value, tuple) else (value,):
                _check(known.name, item, *bounds)


def nearest(key: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known key most like `key`, or None."""
    found = difflib.get_close_matches(key, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def read_scalar(kind: type, value: Any, where: str, *, texts: bool = True) -> Any:
    """A truth value, number, text, path or member of an enumeration."""
    if isinstance(value, str | Path) and "\0" in str(value):
        raise InvalidInput(f"{where} is {str(value)!r}: take the character 0 out of it")
    if kind is bool:
        return _boolean(value, where, texts)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is str and isinstance(value, str):
        return value
    if issubclass(kind, enum.Enum):
        return _member(kind, value, where)
    number = _number(kind, value) if texts or not isinstance(value, str) else None
    if number is None:
        raise InvalidInput(f"{where} is {value!r}: use {_KINDS.get(kind, kind.__name__)}")
    return number


@dataclass(frozen=True, slots=True)
class _Reader:
    texts: bool

    def table(self, kind: Any, values: Any, where: str) -> Any:
        types_by_name = typing.get_type_hints(kind)
        known = keys(kind)
        made: dict[str, Any] = {}
        for key, value in _mapping(values, where).items():
            if key not in known:
                near = nearest(key, known)
                hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
                raise InvalidInput(f"{where} has an unknown key {key!r}: {hint}")
            made[key] = self._value(types_by_name[key], value, f"{where}: {key}")
        for field in dataclasses.fields(kind):
            needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if needed and field.name not in made:
                raise InvalidInput(f"{where} lacks the key {field.name!r}: add it")
        try:
            return kind(**made)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error.message}") from error

    def _value(self, kind: Any, value: Any, where: str) -> Any:
        if kind is Any:
            return value
        origin = typing.get_origin(kind)
        if origin in (types.UnionType, typing.Union):
            return self._optional(kind, value, where)
        if origin is tuple:
            return self._list(typing.get_args(kind)[0], value, where)
        if origin is not None:
            inner, items = typing.get_args(kind)[1], _mapping(value, where).items()
            return {str(key): self._value(inner, item, f"{where}.{key}") for key, item in items}
        if dataclasses.is_dataclass(kind):
            return value if dataclasses.is_dataclass(value) else self.table(kind, value, where)
        return read_scalar(kind, value, where, texts=self.texts)

    def _optional(self, kind: Any, value: Any, where: str) -> Any:
        inner = [argument for argument in typing.get_args(kind) if argument is not type(None)]
        if len(inner) == len(typing.get_args(kind)):
            if isinstance(value, tuple(inner)):
                return value
            raise InvalidInput(f"{where} is {value!r}: use a text, a number, true or false")
        return None if value is None or (self.texts and value == "") else self._value(inner[0], value, where)

    def _list(self, kind: Any, value: Any, where: str) -> tuple[Any, ...]:
        if self.texts and isinstance(value, str):
            value = [part for part in value.split(os.pathsep) if part]
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{where} is {value!r}: use a list")
        if dataclasses.is_dataclass(kind):
            return tuple(self._value(kind, item, f"{where} number {place}") for place, item in enumerate(value, 1))
        return tuple(self._value(kind, item, where) for item in value)


def _check(name: str, value: float | None, least: float, most: float) -> None:
    if value is None or least <= value <= most:
        return
    if most == 1:
        raise InvalidInput(f"{name} is {value}: use a share from 0 to 1")
    raise InvalidInput(f"{name} is {value}: use {f'{least} or more' if value < least else f'{most} or less'}")


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{where} is {value!r}: use a table")
    return value


def _number(kind: type, value: Any) -> Any:
    """None for what is no such number."""
    if kind not in (int, float) or isinstance(value, bool):
        return None
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and (number == value or isinstance(value, str)) else None


def _boolean(value: Any, where: str, texts: bool) -> bool:
    if isinstance(value, bool):
        return value
    if texts and str(value).lower() in _TRUE | _FALSE:
        return str(value).lower() in _TRUE
    raise InvalidInput(f"{where} is {value!r}: use true or false")


def _member(kind: type[enum.Enum], value: Any, where: str) -> enum.Enum:
    try:
        return kind(value)
    except ValueError as error:
        raise InvalidInput(f"{where} is {value!r}: use {', '.join(str(one.value) for one in kind)}") from error
