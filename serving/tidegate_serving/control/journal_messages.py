"""Journal entries as protobuf messages of `tidegate.v1` and back.

The control port's server encodes what the journal holds; the control client decodes it.
"""

from __future__ import annotations

from typing import Any

from tidegate_serving.contract.messages import message
from tidegate_serving.journal.entry import Entry, Kind


def to_journal_entry(entry: Entry) -> Any:
    """A `JournalEntry`."""
    return message("tidegate.v1.JournalEntry")(
        at_us=entry.at_us,
        kind=entry.kind.value,
        action=entry.action,
        servable=entry.servable,
        version=entry.version,
        requested_by=entry.requested_by,
        reason=entry.reason,
        error_code=entry.error_code,
        text=entry.text,
    )


def from_journal_entry(answer: Any) -> Entry:
    """The entry that a `JournalEntry` tells of."""
    return Entry(
        kind=Kind(answer.kind),
        action=answer.action,
        text=answer.text,
        servable=answer.servable,
        version=answer.version if answer.HasField("version") else None,
        requested_by=answer.requested_by,
        reason=answer.reason,
        error_code=answer.error_code,
        at_us=answer.at_us,
    )
