"""Looks every few seconds at what is wrong, and sends what is due."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from tidegate_pipelines.hub.alerts.book import AlertBook, Told
from tidegate_pipelines.hub.alerts.send import send
from tidegate_pipelines.hub.alerts.wanted import what_is_wrong
from tidegate_pipelines.hub.people_config import ReceiverConfig
from tidegate_pipelines.hub.rounds import Rounds
from tidegate_serving.contract.errors import TidegateError

_EVERY_SECONDS = 5.0
_log = logging.getLogger(__name__)
Send = Callable[[ReceiverConfig, Sequence[Told], str], None]


class Courier:
    """Works in `rounds`; one that is stopped ends after the message that is just being sent. `hub` is the beginning of
    links in messages.
    """

    def __init__(self, book: AlertBook, hub: str, send_one: Send = send) -> None:
        self._book = book
        self._hub = hub
        self._send = send_one
        self.rounds = Rounds("alerts", self.look, _EVERY_SECONDS)

    def look(self) -> None:
        """Takes in what is wrong, then sends everything that is due."""
        self._book.update(what_is_wrong)
        while not self.rounds.stopping and (claimed := self._book.claim()) is not None:
            self._tell(*claimed)

    def _tell(self, receiver: ReceiverConfig, message: Sequence[Told]) -> None:
        try:
            self._send(receiver, message, self._hub)
        except TidegateError as error:
            _log.warning("alert not sent: %s", error.message)
            self._book.failed(message, error.message)
        except Exception as error:
            _log.exception("alert not sent to %s", receiver.name)
            self._book.failed(message, f"{type(error).__name__}")
        else:
            self._book.sent(message)
