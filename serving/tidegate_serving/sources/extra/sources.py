"""All sources that the config adds by tables `[sources.NAME]`: started and stopped together, replaced by a reload.

A reload first makes a plan, which may fail and changes nothing, and then carries it out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.extra.connection import SourceConnection
from tidegate_serving.sources.extra.factory import NamesServables, make_source
from tidegate_serving.sources.target import Source

START_SECONDS = 10.0
Tables = Mapping[str, Mapping[str, Any]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExtraPlan:
    """What a reload does to the sources: those that are `made`, new or with another table, and those that go."""

    made: Mapping[str, _Extra] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()


class ExtraSources:
    """A `Source` made of several; each reaches target, owners and problems of `context` by a connection of its own.

    Raises what `make_source` raises for tables that cannot be used.
    """

    def __init__(self, tables: Tables, context: SourceContext) -> None:
        self._context = context
        self._running = {name: self._make(name, table) for name, table in tables.items()}

    def start(self) -> None:
        """Starts each of them."""
        for extra in list(self._running.values()):
            extra.source.start()
            extra.started()

    def stop(self) -> None:
        """Stops each of them; what they aspired stays."""
        for extra in list(self._running.values()):
            extra.source.stop()

    def plan(self, tables: Tables) -> ExtraPlan:
        """What other tables would change. Raises what `make_source` raises; changes nothing."""
        now = {name: extra.table for name, extra in self._running.items()}
        made = {name: self._make(name, table) for name, table in tables.items() if now.get(name) != table}
        return ExtraPlan(made, frozenset(now.keys() - tables.keys()))

    def give_up(self, plan: ExtraPlan) -> None:
        """Stops the sources that go, and ends what they aspired."""
        for name in sorted(plan.gone & self._running.keys()):
            extra = self._running.pop(name)
            extra.stop()
            extra.connection.give_up()

    def take_up(self, plan: ExtraPlan) -> None:
        """Starts the sources that come; one with another table takes over from the one before it.

        Raises what a start raises within ten seconds. One that takes longer goes on, and reports a later failure as a
        problem of that source.
        """
        for name, extra in plan.made.items():
            before = self._running.get(name)
            if before is not None:
                before.stop()
                extra.connection.inherit(before.connection)
            self._running[name] = extra
            try:
                extra.start_for(START_SECONDS)
            except Exception:
                extra.stop()
                raise

    def take_over(self, name: str) -> bool:
        """Called when another source has let go of a servable: whether one of these may want it.

        If so, its versions stay until that source aspires some of its own, or is certain that it does not want it.
        """
        for extra in self._running.values():
            if extra.may_want(name):
                extra.connection.adopt(name)
                extra.release_inherited()
                if name in extra.connection.inherited:
                    return True
        return False

    def _make(self, name: str, table: Mapping[str, Any]) -> _Extra:
        connection = SourceConnection(self._context)
        problems = _Problems(connection)
        context = replace(self._context, target=connection, owners=connection, problems=problems)
        made = _Extra(name, table, make_source(name, table, context), connection)
        problems.on_settled = made.release_inherited
        return made


class _Problems:
    """A connection's reports, with a call after each settled problem."""

    def __init__(self, connection: SourceConnection) -> None:
        self._connection = connection
        self.on_settled: Callable[[], None] = lambda: None

    def report(self, servable: str, source: str, error: TidegateError) -> None:
        """As `SourceConnection.report`."""
        self._connection.report(servable, source, error)

    def settle(self, servable: str, source: str) -> None:
        """As `SourceConnection.settle`."""
        self._connection.settle(servable, source)
        if self._connection.inherited:
            self.on_settled()


@dataclass(frozen=True, slots=True)
class _Extra:
    """One source with the table that it was made from; `ready` is set when its start has returned."""

    name: str
    table: Mapping[str, Any]
    source: Source
    connection: SourceConnection
    ready: threading.Event = field(default_factory=threading.Event)

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
        """Called when its start has returned."""
        self.ready.set()
        self.release_inherited()

    def stop(self) -> None:
        """Stops it; what it aspired stays."""
        self.connection.close()
        self.source.stop()

    def release_inherited(self) -> None:
        """Gives up what is inherited, where it is certain that this source does not want it."""
        connection = self.connection
        if not connection.inherited or not self.ready.is_set() or connection.is_troubled(""):
            return
        names = self.source.names() if isinstance(self.source, NamesServables) else connection.aspired
        if names is not None:
            connection.give_up([name for name in connection.inherited - names if not connection.is_troubled(name)])

    def may_want(self, name: str) -> bool:
        """Whether it wants a servable, or cannot yet say that it does not."""
        if not self.ready.is_set() or self.connection.is_troubled(name):
            return True
        if not isinstance(self.source, NamesServables):
            return False
        names = self.source.names()
        return names is None or name in names

    def _complain(self, error: Exception) -> None:
        ours = error if isinstance(error, TidegateError) else Unavailable(f"source {self.name} did not start: {error}")
        self.connection.report("", self.name, ours)
