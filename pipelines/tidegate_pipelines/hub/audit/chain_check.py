"""Checks the chain of the audit log on a thread of its own: nobody who looks at the log waits for all of its lines."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate_pipelines.hub.audit.check import Verification, verify_database, verify_since
from tidegate_pipelines.hub.audit.log import AuditLog
from tidegate_serving.contract.errors import TidegateError

_HOLDS = timedelta(hours=1)
_WHOLE_HOLDS = timedelta(days=1)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found at `at`. Every line was read at `whole_at`, and those that came since then at `at`."""

    found: Verification
    at: datetime
    whole_at: datetime


class ChainCheck:
    """The last finding, none where the last check broke off. New lines are checked where it is older than an hour,
    every line where that is a day ago, where something was wrong, and whenever somebody asks. Safe to use from several
    threads, which share one check.

    Whoever asked for a check, or looks first, waits for `wait_seconds`: some ten thousand lines are read by then.
    """

    def __init__(self, log: AuditLog, wait_seconds: float = 2.0) -> None:
        self._audit = log
        self._wait_seconds = wait_seconds
        self._guard = threading.Lock()
        self._last: Checked | None = None
        self._thread: threading.Thread | None = None
        self._anew = False

    def look(self, now: datetime, *, anew: bool) -> tuple[Checked | None, bool]:
        """The last finding, None where there is none yet, and whether the log is being checked at this moment."""
        with self._guard:
            running = self._thread
            self._anew |= anew
            if running is None and (anew or self._last is None or now - self._last.at > _HOLDS):
                running = threading.Thread(target=self._run, args=(now,), name="audit check", daemon=True)
                self._thread = running
                running.start()
            waits = anew or self._last is None
        if running is not None and waits:
            running.join(self._wait_seconds)
        with self._guard:
            return self._last, self._thread is not None

    def _run(self, now: datetime) -> None:
        found = None
        try:
            found = self._check(now)
        except TidegateError as error:
            _log.warning("the audit log was not checked: %s", error.message)
        except Exception:
            _log.exception("the audit log was not checked: this is a fault of Tidegate")
        with self._guard:
            self._thread, self._last, self._anew = None, found, False

    def _check(self, now: datetime) -> Checked:
        last = self._last
        if last is not None and last.found.whole and not self._anew and now - last.whole_at <= _WHOLE_HOLDS:
            carried = verify_since(self._audit, last.found)
            if carried is not None and not self._anew:
                return Checked(carried, now, last.whole_at)
        return Checked(verify_database(self._audit), now, now)
