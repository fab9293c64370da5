"""A journal entry: what happened when, to which servable, who requested it and why. Kept as a line of JSON."""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.servable import State, StateChange
from tidegate_serving.contract.words import cut

FORMAT_KIND = "journal"
VERSION = "1"
MOST_WHO = 200
_MOST_CHARACTERS = 8000
_SAYS = " (says "
_TEXTS = ("action", "text", "servable", "requested_by", "reason")


class Kind(enum.Enum):
    """What sort of thing happened."""

    CONTROL = "control"  # a person or client requested it, and it was done
    REFUSED = "refused"  # a person or client requested it, and it was refused
    STATE = "state"  # a version entered a public state
    SOURCE = "source"  # a source proposed something, or could not be heard
    ENGINE = "engine"  # the engine started, stopped, or could not keep something


def named(name: str, claim: str) -> str:
    """Who asked, where access control knows them as `name` and they say that they ask for `claim`."""
    if not claim or claim == name:
        return name
    return f"{name}{_SAYS}{claim[: MOST_WHO - len(name) - len(_SAYS) - 1]})"


def claim_of(requested_by: str) -> str:
    """For whom somebody said that they asked: what `named` was given, cut as it cuts."""
    _, says, claim = requested_by.partition(_SAYS)
    return claim.removesuffix(")") if says else requested_by


def is_by(requested_by: str, claim: str) -> bool:
    """Whether an entry is of whoever asked as `claim`, also where access control knows them by another name."""
    name, says, _ = requested_by.partition(_SAYS)
    return requested_by == (named(name, claim) if says else claim)


@dataclass(frozen=True, slots=True)
class Entry:
    """`text` says it in words; `action` is its stable name (`rollback`, `AVAILABLE`, ...); `at_us` is Unix time in
    microseconds; `version` is None where it concerns the whole servable."""

    kind: Kind
    action: str
    text: str
    servable: str = ""
    version: int | None = None
    requested_by: str = ""
    reason: str = ""
    error_code: str = ""
    at_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    def bounded(self) -> Entry:
        """The same with what an entry may take of the journal: whoever asks chooses its texts, and long ones would wash
        away what others did."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        long: dict[str, Any] = {
            name: cut(text, _MOST_CHARACTERS) for name, text in texts.items() if len(text) > _MOST_CHARACTERS
        }
        return replace(self, **long) if long else self

    def words(self) -> str:
        """One line for people, without the time."""
        who = f" by {self.requested_by}" if self.requested_by else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.text}{who}{why}"


def of_change(change: StateChange) -> Entry:
    """A state change as an entry."""
    if change.state is State.END and change.error_code:
        text = f"{change.id} has ended with {change.error_code}: {change.error_message}"
    else:
        text = f"{change.id} {_SAID[change.state]}"
    return Entry(
        Kind.STATE,
        change.state.name,
        text,
        servable=change.id.name,
        version=change.id.version,
        error_code=change.error_code,
        at_us=change.at_us,
    )


_SAID = {
    State.START: "is wanted",
    State.LOADING: "is loading",
    State.AVAILABLE: "is available",
    State.UNLOADING: "is unloading",
    State.END: "has unloaded",
}


def to_line(entry: Entry) -> bytes:
    """One line of JSON, with its format and a time that people can read."""
    document = {
        "format": f"tidegate.{FORMAT_KIND}/{VERSION}",
        "at": datetime.fromtimestamp(entry.at_us / 1e6, UTC).isoformat(timespec="microseconds"),
        "at_us": entry.at_us,
        "kind": entry.kind.value,
        "action": entry.action,
        "servable": entry.servable,
        "version": entry.version,
        "requested_by": entry.requested_by,
        "reason": entry.reason,
        "error_code": entry.error_code,
        "text": entry.text,
    }
    return (json.dumps(document, ensure_ascii=False) + "\n").encode()


def from_line(line: bytes, where: str) -> Entry:
    """The entry of a line. ValueError or KeyError for a torn one, Unsupported for one of an unknown major version."""
    document: Mapping[str, Any] = json.loads(line)
    check_format(document, kind=FORMAT_KIND, version=VERSION, where=where)
    return Entry(
        Kind(document["kind"]),
        document["action"],
        document["text"],
        document["servable"],
        document["version"],
        document["requested_by"],
        document["reason"],
        document["error_code"],
        document["at_us"],
    )
