"""Logs what models raise, so that one that always raises does not fill the log."""

from __future__ import annotations

import logging
import time

from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.words import trace_of

_SECONDS_BETWEEN = 1.0
_log = logging.getLogger(__name__)


class Complaints:
    """Logs what one version raised, and where, at most once a second."""

    def __init__(self, id: ServableId) -> None:
        self._id = id
        self._next = 0.0

    def __call__(self, error: BaseException) -> None:
        """It raised this on a batch."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _SECONDS_BETWEEN
            _log.warning("%s raised on a batch\n%s", self._id, trace_of(error))
