"""The sources that a config adds by tables `[sources.NAME]`, as they come, change and go while the engine runs.

The engine starts and stops them together; a reload asks for a plan, which may fail and changes nothing, and then for
its execution.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate_serving.admission.admission import Admission
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.sources.extra import Named, SourceContext, make_source
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems
from tidegate_serving.sources.share import Share
from tidegate_serving.sources.target import Source, Target

START_SECONDS = 10.0
Tables = Mapping[str, Mapping[str, Any]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExtraPlan:
    """What is to become of the sources: those that are `made` anew or for the first time, and those that go."""

    made: Mapping[str, _Extra] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Shared:
    """What all extra sources have in common; each speaks to target, owners and problems through a share of its own."""

    target: Target[VersionReference]
    admission: Admission
    owners: Owners
    problems: SourceProblems
    state_directory: Path | None = None


class ExtraSources:
    """A `Source` that is made of others. Raises what `make_source` raises for tables that cannot be."""

    def __init__(self, tables: Tables, shared: Shared) -> None:
        self._shared = shared
        self._running = {name: self._make(name, table) for name, table in tables.items()}

    def start(self) -> None:
        """Each speaks for the first time."""
        for extra in list(self._running.values()):
            extra.source.start()
            extra.started()

    def stop(self) -> None:
        """They say nothing more; what they want stays."""
        for extra in list(self._running.values()):
            extra.source.stop()

    def plan(self, tables: Tables) -> ExtraPlan:
        """What other tables would change. Raises what `make_source` raises; changes nothing."""
        now = {name: extra.table for name, extra in self._running.items()}
        made = {name: self._make(name, table) for name, table in tables.items() if now.get(name) != table}
        return ExtraPlan(made, frozenset(now.keys() - tables.keys()))

    def give_up(self, plan: ExtraPlan) -> None:
        """Ends the sources that go, and what they want."""
        for name in sorted(plan.gone & self._running.keys()):
            extra = self._running.pop(name)
            extra.stop()
            extra.share.give_up()

    def take_up(self, plan: ExtraPlan) -> None:
        """Starts the sources that come; one with another table takes over from the one before it. Raises what a start
        raises within ten seconds; what takes longer goes on, and a failure then is a problem of that source."""
        for name, extra in plan.made.items():
            before = self._running.get(name)
            if before is not None:
                before.stop()
                extra.share.inherit(before.share)
            self._running[name] = extra
            try:
                extra.start_for(START_SECONDS)
            except Exception:
                extra.stop()
                raise

    def take_over(self, name: str) -> bool:
        """Another source has let go of a servable. Whether one of these may want it: then what it had stays until that
        one says something of it, or is certain that it does not want it."""
        for extra in self._running.values():
            if extra.may_want(name):
                extra.share.adopt(name)
                extra.sweep()
                if name in extra.share.heirs:
                    return True
        return False

    def _make(self, name: str, table: Mapping[str, Any]) -> _Extra:
        shared = self._shared
        share = Share(shared.target, shared.owners, shared.problems)
        problems = _Sweeping(share)
        context = SourceContext(share, shared.admission, share, problems, shared.state_directory)
        source = make_source(name, table, context)
        made = _Extra(name, table, source, share)
        problems.sweep = made.sweep
        return made


class _Sweeping:
    """Hears when something is well again, and then looks what of the table before nobody wants."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self.sweep: Callable[[], None] = lambda: None

    def report(self, servable: str, source: str, error: TidegateError) -> None:
        """Passes it on."""
        self._share.report(servable, source, error)

    def settle(self, servable: str, source: str) -> None:
        """Passes it on, and looks."""
        self._share.settle(servable, source)
        if self._share.heirs:
            self.sweep()


@dataclass(frozen=True, slots=True)
class _Extra:
    """One source with the table that it was made from."""

    name: str
    table: Mapping[str, Any]
    source: Source
    share: Share
    spoken: threading.Event = field(default_factory=threading.Event)

    def start_for(self, seconds: float) -> None:
        """Starts it on a thread of its own; returns after `seconds`. Raises what it raised until then."""
        failed: list[Exception] = []
        ended, late = threading.Event(), threading.Event()

        def run() -> None:
            try:
                self.source.start()
            except Exception as error:
                failed.append(error)
                if late.is_set():
                    self._complain(error)
            else:
                self.started()
            finally:
                ended.set()

        threading.Thread(target=run, name=f"tidegate-start-{self.name}", daemon=True).start()
        in_time = ended.wait(seconds)
        late.set()
        if failed:
            raise failed[0]
        if not in_time:
            _log.warning("source %s has not looked at everything within %g s, it goes on", self.name, seconds)

    def started(self) -> None:
        """It has spoken for the first time."""
        self.spoken.set()
        self.sweep()

    def stop(self) -> None:
        """It says nothing more."""
        self.share.close()
        self.source.stop()

    def sweep(self) -> None:
        """Gives up what only the table before wanted, where it is certain that this one does not."""
        if not self.share.heirs or not self.spoken.is_set() or self.share.is_troubled(""):
            return
        names = self.source.names() if isinstance(self.source, Named) else self.share.wanted
        if names is not None:
            self.share.give_up([name for name in self.share.heirs - names if not self.share.is_troubled(name)])

    def may_want(self, name: str) -> bool:
        """Whether it wants a servable, or cannot yet say that it does not."""
        if not self.spoken.is_set() or self.share.is_troubled(name):
            return True
        if not isinstance(self.source, Named):
            return False
        names = self.source.names()
        return names is None or name in names

    def _complain(self, error: Exception) -> None:
        ours = error if isinstance(error, TidegateError) else Unavailable(f"source {self.name} did not start: {error}")
        self.share.report("", self.name, ours)
