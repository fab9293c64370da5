"""The skew loop: every so often, a window of what the engine saw becomes a report, and the report keep, warn or alert.

Skew in production alerts; whether to roll back is for whoever hears the alert.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate_operators.steps import Skew, previous_directory, require_log, serving_directory, skew
from tidegate_serving.admission import Outcome
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import (
    DeadlinePassed,
    FailedPrecondition,
    InvalidInput,
    TidegateError,
    Unavailable,
)
from tidegate_serving.contract.manifest import FILE_NAME
from tidegate_serving.files import FULL, NO_MORE_OPEN, file_error

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 1.0


class Action(enum.StrEnum):
    """What a window calls for."""

    KEEP = "keep"
    WARN = "warn"
    ALERT = "alert"


_ACTIONS = {Outcome.PASS: Action.KEEP, Outcome.WARN: Action.WARN, Outcome.INCONCLUSIVE: Action.WARN}


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched: the label `stable` of `servable`, in windows of `window` of event time, each `every` seconds.

    Reports go to `reports`/<end of window>/, and gauges for Prometheus to `reports`/skew.prom. What all windows so far
    say together is remembered in `reports`, with one false alarm per `windows_per_alarm` windows at most; each window
    counts once, and only those that do not overlap.
    """

    control: str | EngineConnection
    servable: str
    reports: Path
    window: timedelta = timedelta(days=1)
    every: float = 3600.0
    windows_per_alarm: int = 365

    def __post_init__(self) -> None:
        if self.window <= timedelta(0) or self.every <= 0.0 or self.windows_per_alarm < 1:
            raise InvalidInput(
                f"window {self.window}, every {self.every} s and windows_per_alarm {self.windows_per_alarm} "
                "must be more than nothing"
            )


@dataclass(frozen=True, slots=True)
class Observation:
    """One window and what it calls for; `since` and `until` in UTC."""

    action: Action
    since: datetime
    until: datetime
    skew: Skew

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings that are not PASS, in words."""
        return tuple(finding.sentence for finding in self.skew.report.findings if finding.outcome is not Outcome.PASS)


def action_for(outcome: Outcome) -> Action:
    """FAIL and ERROR alert; what is unclear warns."""
    return _ACTIONS.get(outcome, Action.ALERT)


def observe(watch: Watch, until: datetime) -> Observation:
    """Reports on the window that ends at `until`, and says whether a rollback to the version before would help.

    Raises what the steps raise, such as Unavailable or NotFound.
    """
    from tidegate_validation.report import write_gauges

    since = until - watch.window
    directory = serving_directory(control=watch.control, servable=watch.servable)
    watch.reports.mkdir(parents=True, exist_ok=True)
    found = skew(
        directory=directory,
        log_root=require_log(control=watch.control),
        since=since,
        until=until,
        watch=watch.reports,
        windows_per_alarm=watch.windows_per_alarm,
        previous=_previous(watch, directory),
        report=watch.reports / until.strftime("%Y-%m-%dT%H%M%SZ"),
    )
    write_gauges(found.report, watch.reports)
    return Observation(action_for(found.report.outcome), since, until, found)


def _previous(watch: Watch, directory: Path) -> Path | None:
    """The version of which to ask whether a rollback would help; None where it is not to be had, as an alert is due
    without advice too."""
    try:
        return previous_directory(control=watch.control, servable=watch.servable) or _version_before(directory)
    except TidegateError as error:
        logger.warning("whether a rollback of %s would help is not asked: %s", watch.servable, error.message)
        return None


def _version_before(directory: Path) -> Path | None:
    """The newest version in the repository that is older than the one in `directory`."""
    if not directory.parent.is_dir():
        return None
    numbers = [
        int(one.name) for one in directory.parent.iterdir() if one.name.isdecimal() and (one / FILE_NAME).is_file()
    ]
    older = [number for number in numbers if directory.name.isdecimal() and number < int(directory.name)]
    return directory.parent / str(max(older)) if older else None


def monitor(
    watch: Watch,
    on_window: Callable[[Observation], None],
    stop: threading.Event,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_away: Callable[[TidegateError], None] = lambda error: logger.warning("%s", error.message),
) -> None:
    """Observes windows until `stop` is set, the first at once. `on_window` hears each, whatever it calls for.

    An engine that does not answer does not end it, nor one that serves nothing after a window was seen, as it may have
    started anew: `on_away` hears why, each time, and it is tried again after growing pauses, never longer than
    `watch.every`. Nor does a full disk, the limit of open files or a fault of our own in one window's report, which
    `on_away` hears of too. Whatever else the steps raise does end it.
    """
    pause = _FIRST_PAUSE_SECONDS
    waited_for: tuple[type[TidegateError], ...] = (Unavailable, DeadlinePassed)
    while not stop.is_set():
        try:
            observation = observe(watch, now())
        except waited_for as error:
            on_away(error)
            stop.wait(min(pause, watch.every))
            pause = min(2 * pause, watch.every)
        except TidegateError:
            raise
        except Exception as error:
            on_away(_no_report(watch, error))
            stop.wait(watch.every)
        else:
            pause = _FIRST_PAUSE_SECONDS
            waited_for = (Unavailable, DeadlinePassed, FailedPrecondition)
            on_window(observation)
            stop.wait(watch.every)


def _no_report(watch: Watch, error: Exception) -> TidegateError:
    """Why a window has no report, and what follows."""
    if isinstance(error, OSError) and error.errno in (*FULL, *NO_MORE_OPEN):
        return file_error(error, Path(error.filename or watch.reports))
    logger.exception("no report on this window of %s", watch.servable)
    return TidegateError(
        f"no report on this window of {watch.servable} ({type(error).__name__}: {error}): the next one is looked at in "
        f"{watch.every:g} s; please report this"
    )
