"""Where control calls arrive: each decision goes to the controls, questions to the journal, and a no is remembered too.

The control port's server hands decoded requests in; what comes back it sends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.contract.messages import message
from tidegate_serving.control.journal_messages import to_journal_entry
from tidegate_serving.control.operations import Asked, Controls, Done
from tidegate_serving.control.rollback import Rollback
from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.journal.journal import IN_MEMORY, Journal

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
ENGINE_LOGGER = "tidegate_serving"


@dataclass(frozen=True, slots=True)
class ControlDesk:
    """`support` gathers what somebody needs who is to help, as files by name."""

    controls: Controls
    rollback: Rollback
    journal: Journal
    support: Callable[[], Mapping[str, bytes]]

    def steer(self, request: Any) -> Any:
        """Answers a `SteerRequest`. Raises the contract's errors; then nothing has changed, unless they say so."""
        action = request.WhichOneof("action") or ""
        asked = Asked(request.servable, request.requested_by, request.reason)
        with self.refusals(action, asked):
            done = self._done(action, asked, request)
        return message("tidegate.v1.SteerResponse")(
            sentence=done.sentence,
            changed=done.changed,
            from_version=done.from_version,
            to_version=done.to_version,
        )

    def refusals(self, action: str, asked: Asked) -> Refusals:
        """A context in which an error is written into the journal on its way out."""
        return Refusals(self.journal, action, asked)

    def read_journal(self, request: Any) -> Iterator[Any]:
        """Answers a `ReadJournalRequest`."""

        def wanted(entry: Entry) -> bool:
            return request.servable in ("", entry.servable)

        newest = min(request.newest or IN_MEMORY, IN_MEMORY)
        return map(to_journal_entry, self.journal.read(request.since_us, wanted, newest))

    def set_log_level(self, request: Any) -> Any:
        """Answers a `SetLogLevelRequest`. InvalidInput for a level that there is not."""
        if request.level not in LEVELS:
            raise InvalidInput(f"log level {request.level!r} is unknown: use {', '.join(LEVELS)}")
        asked = Asked("", request.requested_by, request.reason)
        name = request.logger or ENGINE_LOGGER
        logger = logging.getLogger(name)
        before = logging.getLevelName(logger.getEffectiveLevel())
        logger.setLevel(request.level)
        text = f"logger {name} is at {request.level}, it was at {before}"
        self.journal.add(Entry(Kind.CONTROL, "log-level", text, requested_by=asked.requested_by, reason=asked.reason))
        return message("tidegate.v1.SetLogLevelResponse")(before=before)

    def get_support(self, _request: Any) -> Any:
        """Answers a `GetSupportRequest`."""
        return message("tidegate.v1.GetSupportResponse")(files=dict(self.support()))

    def _done(self, action: str, asked: Asked, request: Any) -> Done:
        controls = self.controls
        plain: Mapping[str, Callable[[Asked], Done]] = {
            "unpin": controls.unpin,
            "freeze": controls.freeze,
            "unfreeze": controls.unfreeze,
            "disable": controls.disable,
            "enable": controls.enable,
        }
        if action in plain:
            return plain[action](asked)
        if action == "pin":
            return controls.pin(asked, request.pin.version)
        if action == "split":
            return controls.split(asked, dict(request.split.shares), request.split.key)
        if action == "block":
            return controls.block(asked, request.block.version)
        if action == "unblock":
            return controls.unblock(asked, request.unblock.version)
        if action == "rollback":
            return self.rollback(
                asked, _optional(request.rollback, "version"), _optional(request.rollback, "from_version")
            )
        raise InvalidInput("the request names no action that this engine knows: use a client of its version")


class Refusals:
    """Writes an error that passes through into the journal."""

    def __init__(self, journal: Journal, action: str, asked: Asked) -> None:
        self._journal = journal
        self._action = action
        self._asked = asked

    def __enter__(self) -> None:
        """Nothing to do yet."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TidegateError):
            asked = self._asked
            what = f"{self._action} of {asked.servable}" if asked.servable else f"a {self._action}"
            text = f"{what} was refused: {error.message}"
            self._journal.add(
                Entry(
                    Kind.REFUSED,
                    self._action,
                    text,
                    asked.servable,
                    requested_by=asked.requested_by,
                    reason=asked.reason,
                    error_code=error.code,
                )
            )


def _optional(request: Any, name: str) -> int | None:
    return int(getattr(request, name)) if request.HasField(name) else None
