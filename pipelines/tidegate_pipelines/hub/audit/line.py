"""One line of the audit log: who did what to which thing, how that ended, and a hash that covers the line before it."""

from __future__ import annotations

import enum
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tidegate_serving.contract.errors import Tampered, Unsupported
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.redaction import REMOVED, without_secrets

FORMAT_KIND = "audit"
VERSION = "1"
Scalar = str | int | float | bool | None
_TOKEN = re.compile(r"\btg_[A-Za-z0-9_-]{16,}")
_MOST_CHARACTERS = 4000


class Outcome(enum.Enum):
    """How it ended."""

    DONE = "done"
    REFUSED = "refused"  # not permitted, or not possible: nothing changed
    FAILED = "failed"  # begun, and broken off by an error


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody did, or wanted to do.

    who: as sign-in knows them (`token 'ci'`, `anna@example.com`). action: a stable word (`rollback`). thing: what it is
    about (`model flights`, `release 17`). address: where the request came from. engine: whose journal it is from, empty
    for the hub's own.
    """

    who: str
    action: str
    thing: str
    outcome: Outcome = Outcome.DONE
    reason: str = ""
    detail: Mapping[str, Scalar] = field(default_factory=dict)
    address: str = ""
    engine: str = ""

    def without_secrets(self) -> Act:
        """The same as it may be kept: no password, token or key in any text, and no text without end."""
        detail = {_clean(key): _clean_value(key, value) for key, value in self.detail.items()}
        texts: dict[str, Any] = {name: _clean(getattr(self, name)) for name in TEXTS}
        return replace(self, **texts, detail=detail)


TEXTS = ("who", "action", "thing", "reason", "address", "engine")
"""The fields that are text, as every writer and reader has them."""


@dataclass(frozen=True, slots=True)
class Line:
    """An act as it is kept. `number` counts from 1, `at_us` is Unix time in microseconds, `before` the hash of the line
    before (empty for the first), `hash` that of this one; both SHA-256 in hex."""

    number: int
    at_us: int
    act: Act
    before: str
    hash: str

    def counted_hash(self) -> str:
        """The hash that its content has, whatever `hash` says."""
        return hash_of(self.number, self.at_us, self.act, self.before)


def made_line(number: int, at_us: int, act: Act, before: str) -> Line:
    """The line of an act that comes after the one with hash `before`."""
    return Line(number, at_us, act, before, hash_of(number, at_us, act, before))


def hash_of(number: int, at_us: int, act: Act, before: str) -> str:
    """SHA-256 in hex over the line's content as JSON with sorted keys, the hash of the line before among it."""
    text = json.dumps(_content(number, at_us, act, before), sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def to_json(line: Line) -> bytes:
    """One line of JSON, with a time that people can read."""
    document = {
        "format": f"tidegate.{FORMAT_KIND}/{VERSION}",
        "at": datetime.fromtimestamp(line.at_us / 1e6, UTC).isoformat(timespec="microseconds"),
        **_content(line.number, line.at_us, line.act, line.before),
        "hash": line.hash,
    }
    return (json.dumps(document) + "\n").encode()


def from_json(data: bytes, where: str) -> Line:
    """The line in a line of JSON. Tampered for what is none, Unsupported for one of an unknown major version."""
    try:
        document: dict[str, Any] = json.loads(data)
        check_format(document, kind=FORMAT_KIND, version=VERSION, where=where)
        act = Act(
            **{name: str(document[name]) for name in TEXTS},
            outcome=Outcome(document["outcome"]),
            detail=dict(document["detail"]),
        )
        return Line(int(document["number"]), int(document["at_us"]), act, document["before"], document["hash"])
    except Unsupported:
        raise
    except MALFORMED as error:
        raise Tampered(
            f"{where} is no line of an audit log ({type(error).__name__}: {error}): take it from the original again"
        ) from error


def _content(number: int, at_us: int, act: Act, before: str) -> dict[str, Any]:
    return {
        "number": number,
        "at_us": at_us,
        **{name: getattr(act, name) for name in TEXTS},
        "outcome": act.outcome.value,
        "detail": dict(act.detail),
        "before": before,
    }


def _clean(text: str) -> str:
    """No database takes a zero character or half a surrogate pair."""
    cleaned = _TOKEN.sub(REMOVED, without_secrets(text)).replace("\0", "").encode("utf-8", "replace").decode()
    return cleaned if len(cleaned) <= _MOST_CHARACTERS else cleaned[:_MOST_CHARACTERS] + "..."


def _clean_value(key: str, value: Scalar) -> Scalar:
    """A value whose key is a secret's is removed, whatever it looks like."""
    if not isinstance(value, str):
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value
    named = f"{key}: {value}"
    return REMOVED if without_secrets(named) != named and without_secrets(value) == value else _clean(value)
