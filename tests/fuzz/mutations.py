"""Alters inputs so that most stay well-formed: a value of a JSON document, or a token of a text, becomes another.

The driver mixes these with the fuzzer's own, which know bytes alone.
"""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

ODD_TEXTS = ("", "a", "NaN", "../x", "\ud800", "\0", "9" * 30, "2013-06-01T00:00:00Z")
ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, 10**400, 1e308, float("inf"), float("nan"), 0.5)
ODD: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"a": {}}, *ODD_TEXTS, *ODD_NUMBERS)
ODD_TOKENS = ("{", "}", "<", ">", "[", "]", ":", ",", ";", '"', "-", "\\", "#", "0x", "1e999", "inf", "true", "9" * 30)
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
DEPTH = 4000


def altered_json(text: bytes, random: Random) -> bytes:
    """The document with a value, or a key, gone or another. ValueError or RecursionError for what is none."""
    document = json.loads(text)
    holders = [holder for holder in _holders(document) if holder]
    if not holders or random.random() < 0.02:
        return b"[" * DEPTH + text + b"]" * DEPTH
    holder = random.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = random.choice(keys)
    match random.randrange(4):
        case 0:
            del holder[key]
        case 1:
            holder[key] = random.choice(ODD)
        case 2:
            other = random.choice(holders)
            holder[key] = json.loads(
                json.dumps(random.choice(list(other.values() if isinstance(other, dict) else other)))
            )
        case _ if isinstance(holder, dict):
            holder[random.choice((*keys, *ODD_TEXTS))] = holder.pop(key)
        case _:
            holder.append(holder[key])
    return json.dumps(document).encode()


def _holders(value: Any) -> list[Any]:
    """Every object and list of a document."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(holder for one in inner for holder in _holders(one))]


def altered_text(text: bytes, random: Random) -> bytes:
    """The text with a token gone, doubled, or another."""
    tokens = TOKEN.findall(text.decode("utf-8", "surrogateescape"))
    if not tokens:
        return text
    at = random.randrange(len(tokens))
    begin, end = sorted((at, min(len(tokens), at + random.randrange(1, 12))))
    match random.randrange(4):
        case 0:
            del tokens[begin:end]
        case 1:
            tokens[at:at] = tokens[begin:end] * random.choice((1, 1, 2, 500))
        case 2:
            tokens[at] = random.choice(tokens)
        case _:
            tokens[at] = random.choice(ODD_TOKENS)
    return "".join(tokens).encode("utf-8", "surrogateescape")
