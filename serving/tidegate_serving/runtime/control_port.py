"""The control port, the journal and the support calls of a running engine, opened and closed together.

The engine builds it around its parts, opens it once the data plane listens, and closes it last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.control.config_service import ConfigService, Reread
from tidegate_serving.control.service import ControlService, Decisions
from tidegate_serving.control.status import EngineStatus
from tidegate_serving.control.support import RecentLines, Support
from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.runtime.assembly import Lifecycle
from tidegate_serving.runtime.assembly_sources import Sources
from tidegate_serving.sources.problems import SourceProblem
from tidegate_serving.sources.rpc.source import RpcSource

if TYPE_CHECKING:
    from tidegate_serving.control.server import ControlServer

CheckDecision = Callable[[str, int | None], None]


@dataclass(frozen=True, slots=True)
class Pushes:
    """Hands desired states to the RPC Source. `check` raises for a servable that somebody else decides about, unless
    the lead says that it is they who push."""

    source: RpcSource
    check: CheckDecision

    def set_desired_state(
        self,
        desired: DesiredState,
        expected_revision: int | None = None,
        lead: int | None = None,
        admitted: Collection[str] = (),
    ) -> int:
        """As the source does."""
        self.check(desired.servable, lead)
        return self.source.set_desired_state(desired, expected_revision, admitted=admitted)


class ControlPort:
    """`config` gives what the engine lives by now, `counters` the data plane's; `reread` reads the config again,
    `check` raises for a servable about which decisions are made elsewhere, unless its lead says who asks."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        sources: Sources,
        config: Callable[[], EngineConfig],
        counters: Callable[[], Mapping[str, float]],
        reread: Reread,
        check: CheckDecision,
    ) -> None:
        self._check = check
        self._config_service = ConfigService(config, reread)
        self._lifecycle = lifecycle
        self._sources = sources
        self._lines = RecentLines()
        self._support = Support(config, counters, lifecycle.journal, self._lines)
        self._server: ControlServer | None = None

    def begin(self) -> None:
        """Listens to what happens; earlier decisions count from now on, before any source speaks."""
        parts = self._lifecycle
        self._lines.attach()
        parts.journal.start()
        parts.journal.add(Entry(Kind.ENGINE, "start", f"the engine starts (Tidegate {metadata.version('tidegate')})"))
        parts.events.subscribe(parts.journal.heard)
        self._sources.problems.subscribe(self._note_problem)
        self._sources.reconciler.start(self._sources.router)

    def listen(self, config: EngineConfig, status: Callable[[str], EngineStatus]) -> str:
        """Opens the control port; its address. OSError, naming the address, where it cannot be bound, NotFound and
        InvalidInput for an access file or certificates that cannot be used."""
        # An engine without this port starts without gRPC for Python, which takes a fifth of its start.
        from tidegate_serving.control.access.gate import guard_of, tls_of
        from tidegate_serving.control.log_service import LogService
        from tidegate_serving.control.server import ControlServer

        problems, journal = self._sources.problems, self._lifecycle.journal
        guard, tls = guard_of(config, problems, journal), tls_of(config, problems)

        decisions = Decisions(self._sources.operations, self._sources.rollback, self._check)
        service = ControlService(decisions, self._lifecycle.journal, self._support.files)
        self._server = ControlServer(
            Pushes(self._sources.rpc, self._check),
            service,
            self._config_service,
            LogService(config.log_path),
            self._lifecycle.monitor,
            status,
            guard,
        )
        return self._server.start(config.control_address, tls)

    def stop(self, grace_seconds: float) -> None:
        """Ends the calls after `grace_seconds`."""
        if self._server is not None:
            self._server.stop(grace_seconds)

    def close(self, clean: bool) -> None:
        """Writes down how it ended."""
        words = "the engine has stopped" + ("" if clean else ", but not everything was answered or unloaded in time")
        self._lifecycle.journal.stop()
        self._lifecycle.journal.add(Entry(Kind.ENGINE, "stop", words))
        self._lines.detach()

    def _note_problem(self, problem: SourceProblem, present: bool) -> None:
        well = f"{problem.servable}: the {problem.source} {problem.ending}".removeprefix(": ")
        text = problem.error.message if present else well
        code = problem.error.code if present else ""
        self._lifecycle.journal.add(
            Entry(Kind.SOURCE, "problem" if present else "settled", text, problem.servable, error_code=code)
        )
