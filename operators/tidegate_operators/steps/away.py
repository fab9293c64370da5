"""An engine, or a fleet's controller, that does not answer: it may only be starting anew, and is waited for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from tidegate_serving.contract.errors import DeadlinePassed, TidegateError, Unavailable

T = TypeVar("T")
_AWAY_SECONDS = 60.0  # an engine loads its models anew, or another controller of a fleet begins to lead
_AGAIN_SECONDS = 0.5
_log = logging.getLogger(__name__)


def is_away(error: TidegateError) -> bool:
    """Whether an engine only does not answer, and may later."""
    return isinstance(error, Unavailable | DeadlinePassed)


def outlast(
    call: Callable[[], T],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> T:
    """What the call says, which may be made again: where no engine answers it is, for a minute, and the error after
    that is raised. Clock and pause in seconds."""
    since: float | None = None
    while True:
        try:
            return call()
        except TidegateError as error:
            now = clock()
            if not is_away(error) or (since is not None and now - since >= _AWAY_SECONDS):
                raise
            if since is None:
                since = now
                _log.warning("%s; it is waited for, %.0f s at most", error.message, _AWAY_SECONDS)
        pause(_AGAIN_SECONDS)
