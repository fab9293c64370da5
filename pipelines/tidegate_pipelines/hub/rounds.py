"""What the hub looks after again and again in the background, each kind on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidegate_serving.contract.errors import TidegateError

_log = logging.getLogger(__name__)


class Rounds:
    """Calls `look`, waits `seconds`, and so on, until it is stopped. What fails is logged under `name` and tried again
    in the next round.
    """

    def __init__(self, name: str, look: Callable[[], None], seconds: float) -> None:
        self._name = name
        self._look = look
        self._seconds = seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    @property
    def stopping(self) -> bool:
        """Whether a round that has begun should end early."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begins the first round."""
        self._thread.start()

    def stop(self) -> None:
        """Ends with the round under way. Nothing happens where none was begun."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self.stopping:
            try:
                self._look()
            except TidegateError as error:
                _log.warning("%s: %s: it is tried again", self._name, error.message)
            except Exception:
                _log.exception("%s: this is a fault of Tidegate; it is tried again", self._name)
            self._stopping.wait(self._seconds)
