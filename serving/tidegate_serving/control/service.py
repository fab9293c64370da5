"""Answers the control port's calls about decisions, the journal and support; what is refused is written down too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.contract.messages import message
from tidegate_serving.control.deciding import Requester
from tidegate_serving.control.messages import optional, to_journal_entry
from tidegate_serving.control.operations import Operations
from tidegate_serving.control.overrides import Outcome, Overrides
from tidegate_serving.control.rollback import Rollback
from tidegate_serving.control.support import ENGINE_LOGGER
from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.journal.journal import IN_MEMORY, Journal

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_TOLD = 100  # characters of a wrong name


class Decides(Protocol):
    """Who carries out the decision in an `OperationRequest`, whose action has that name."""

    def __call__(self, action: str, requester: Requester, request: Any) -> Outcome:
        """What came of it. Raises the contract's errors; then nothing has changed, unless they say so."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Carries out every decision that there is, in an engine. `check` raises for a servable about which somebody else
    decides, unless the lead says that it is they who ask."""

    operations: Operations
    rollback: Rollback
    check: Callable[[str, int | None], None]

    def __call__(self, action: str, requester: Requester, request: Any) -> Outcome:
        """What came of it."""
        operations = self.operations
        if action == "overrides":
            self.check(requester.servable, optional(request.overrides, "lead"))
            return operations.replace_overrides(requester, Overrides.from_json(request.overrides.json))
        self.check(requester.servable, None)
        plain: Mapping[str, Callable[[Requester], Outcome]] = {
            "unpin": operations.unpin,
            "freeze": operations.freeze,
            "unfreeze": operations.unfreeze,
            "disable": operations.disable,
            "enable": operations.enable,
        }
        if action in plain:
            return plain[action](requester)
        if action == "pin":
            return operations.pin(requester, request.pin.version)
        if action == "split":
            return operations.split(requester, dict(request.split.shares), request.split.key, request.split.until_us)
        if action == "block":
            return operations.block(requester, request.block.version)
        if action == "unblock":
            return operations.unblock(requester, request.unblock.version)
        if action == "rollback":
            return self.rollback(
                requester, optional(request.rollback, "version"), optional(request.rollback, "from_version")
            )
        raise InvalidInput("the request names no action that this engine knows: use a client of its version")


@dataclass(frozen=True, slots=True)
class ControlService:
    """`support` gathers what somebody needs who is to help, as files by name."""

    decide: Decides
    journal: Journal
    support: Callable[[], Mapping[str, bytes]]

    def operate(self, request: Any) -> Any:
        """Answers an `OperationRequest`. Raises the contract's errors; then nothing has changed, unless they say so."""
        action = request.WhichOneof("action") or ""
        requester = Requester(request.servable, request.requested_by, request.reason)
        with refusals(self.journal, action, requester):
            outcome = self.decide(action, requester, request)
        return message("tidegate.v1.OperationResponse")(
            sentence=outcome.sentence,
            changed=outcome.changed,
            from_version=outcome.from_version,
            to_version=outcome.to_version,
        )

    def read_journal(self, request: Any) -> Iterator[Any]:
        """Answers a `ReadJournalRequest`."""

        def wanted(entry: Entry) -> bool:
            return request.servable in ("", entry.servable)

        newest = min(request.newest or IN_MEMORY, IN_MEMORY)
        return map(to_journal_entry, self.journal.read(request.since_us, wanted, newest))

    def set_log_level(self, request: Any) -> Any:
        """Answers a `SetLogLevelRequest`. InvalidInput for a level that there is not, and for a logger that nobody
        has asked for: one of any name would be kept for ever."""
        if request.level not in LEVELS:
            raise InvalidInput(f"log level {request.level!r} is unknown: use {', '.join(LEVELS)}")
        requester = Requester("", request.requested_by, request.reason)
        name = request.logger or ENGINE_LOGGER
        if name not in (logging.root.name, *logging.root.manager.loggerDict):
            raise InvalidInput(
                f"no logger is called {name[:_TOLD]!r} in this engine: use one such as {ENGINE_LOGGER} or "
                f"{ENGINE_LOGGER}.sources, of a module that it has loaded"
            )
        logger = logging.getLogger(name)
        before = logging.getLevelName(logger.getEffectiveLevel())
        logger.setLevel(request.level)
        text = f"logger {name} is at {request.level}, it was at {before}"
        by, why = requester.requested_by, requester.reason
        self.journal.add(Entry(Kind.CONTROL, "log-level", text, requested_by=by, reason=why))
        return message("tidegate.v1.SetLogLevelResponse")(before=before)

    def get_support(self, _request: Any) -> Any:
        """Answers a `GetSupportRequest`."""
        return message("tidegate.v1.GetSupportResponse")(files=dict(self.support()))


@contextmanager
def refusals(journal: Journal, action: str, requester: Requester) -> Iterator[None]:
    """Writes an error that passes through into the journal."""
    try:
        yield
    except TidegateError as error:
        name, by, why = requester.servable, requester.requested_by, requester.reason
        text = f"{action} of {name}" if name else f"a {action}"
        words = f"{text} was refused: {error.message}"
        journal.add(Entry(Kind.REFUSED, action, words, name, None, by, why, error.code))
        raise
