"""Bytes in a manifest's example, which is JSON: texts as they are, what is no UTF-8, such as an image, as
`{"b64": "..."}`, as requests have it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from tidegate_serving.contract.errors import InvalidInput

_KEY = "b64"


def to_json(value: bytes) -> str | dict[str, str]:
    """The value as JSON holds it."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {_KEY: base64.b64encode(value).decode()}


def is_b64(value: object) -> bool:
    """Whether it is such an object, of base64 or not."""
    return isinstance(value, Mapping) and value.keys() == {_KEY} and isinstance(value[_KEY], str)


def to_bytes(value: Any) -> bytes:
    """What a value stands for, whatever else has no text of its own as Python writes it. InvalidInput for `b64` of what
    is no base64."""
    if isinstance(value, bytes):
        return value
    if not is_b64(value):
        return str(value).encode()
    try:
        return base64.b64decode(value[_KEY], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{value[_KEY]!r} is no base64 ({error}): write b64 as `base64 -w0 FILE` does") from error
