"""The parts of a started engine: started in their order, reloaded, and stopped backwards.

The engine makes one at each start; sources, reconciler, manager, data plane and control port meet here alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tidegate_serving.admission import AdmissionWatch, OverrideGauge
from tidegate_serving.config import EngineConfig, ModelConfig
from tidegate_serving.config.view import ConfigDiff
from tidegate_serving.contract.desired_state import CALLABLE, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.servable import ServableId, StateChange
from tidegate_serving.control.config_service import Reread
from tidegate_serving.control.deciding import Requester
from tidegate_serving.control.reflection import DATA_SERVICES, Reflection
from tidegate_serving.control.service import refusals
from tidegate_serving.control.status import EngineStatus
from tidegate_serving.control.status_report import StatusReport
from tidegate_serving.embedded.program import Program
from tidegate_serving.inference_log.comparison import Comparison
from tidegate_serving.platforms.platform import Platform
from tidegate_serving.requests.running_plane import (
    REFLECTION,
    RELOAD_CONFIG,
    ModelStates,
    RunningPlane,
    start_plane,
)
from tidegate_serving.runtime.assembly import Lifecycle, LiveConfig, make_lifecycle, threads_beside_nothing
from tidegate_serving.runtime.assembly_sources import Sources, make_sources
from tidegate_serving.runtime.control_port import CheckDecision, ControlPort
from tidegate_serving.runtime.data_ports import DataPorts
from tidegate_serving.runtime.log_problem import LogProblem
from tidegate_serving.runtime.model_swap import ModelSwap
from tidegate_serving.runtime.readiness import Readiness, ServedNames
from tidegate_serving.runtime.reload import Reloader
from tidegate_serving.runtime.stuck_watch import StuckWatch
from tidegate_serving.runtime.trace_export import TraceExport
from tidegate_serving.tensorflow_serving.reload_call import ReloadCall

_LEAST_SECONDS = 1.0  # for unloading, where answering took all the time that there was
RELOAD_REQUEST = "HandleReloadConfigRequest"
NOT_STARTED = "the engine has not started: wait until it has"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineAddresses:
    """Where an engine listens, as `host:port`; empty for an endpoint that is closed."""

    grpc: str
    rest: str
    control: str


class RunningEngine:
    """The parts of a started engine, in the order in which they start and, backwards, stop."""

    def __init__(self, config: EngineConfig, reread: Reread) -> None:
        self._config = config
        self._reread = reread
        self.live = LiveConfig(config)
        self.lifecycle: Lifecycle = make_lifecycle(self.live)
        self._reloader: Reloader | None = None
        self._swap: ModelSwap | None = None
        self._sources: Sources | None = None
        self._plane: RunningPlane | None = None
        self._control: ControlPort | None = None
        self._readiness: Readiness | None = None
        self._watch: AdmissionWatch | None = None
        self._stuck: StuckWatch | None = None
        self._data_ports: DataPorts | None = None
        self._traces: TraceExport | None = None
        self._checks_decisions: CheckDecision | None = None
        self.addresses = EngineAddresses("", "", "")

    def start(self) -> None:
        """Builds and starts everything; returns once every version is settled, or start_seconds have passed."""
        parts, config = self.lifecycle, self._config
        self._sources = sources = make_sources(self.live, parts)
        self._reloader = Reloader(self.live, parts, sources)
        self._swap = ModelSwap(self.live, self._reloader, parts)
        reload_call = ReloadCall(lambda: self.live.now, self._swap_models, lambda: self.counters())

        def reload(request: bytes) -> bytes:
            with self.refusals("reload", RELOAD_REQUEST, ""):
                return reload_call(request)

        self._data_ports = data_ports = DataPorts(config, sources.problems)
        log_problem = LogProblem(config.log_path, parts.problems)
        log_problem.foretell()
        calls = {RELOAD_CONFIG: reload, REFLECTION: Reflection(DATA_SERVICES).answer}
        if config.trace_endpoint:
            self._traces = TraceExport(config.trace_endpoint, parts.problems)
        self._plane = plane = start_plane(config, parts.front, calls, log_problem, data_ports.security(), self._traces)
        data_ports.watch(plane)
        sources.workers.show_in(plane)
        parts.events.subscribe(ModelStates(parts.monitor, plane.set_states).heard)
        names = ServedNames(parts.manager, sources.files, sources.reconciler, sources.problems)
        self._readiness = readiness = Readiness(parts.monitor, names, plane.set_ready, names.blind)
        readiness.start()
        parts.events.subscribe(readiness.heard)
        parts.problems.subscribe(lambda problem, present: None if problem.servable else readiness.wake())
        parts.events.subscribe(_log_change)
        self._watch = AdmissionWatch(
            sources.admission,
            lambda among: _manifest_digests(parts.manager.origins(among)),
            parts.monitor.state,
            sources.problems,
            readiness.remark,
            OverrideGauge(plane),
        )
        parts.events.subscribe(self._watch.heard)
        self._stuck = StuckWatch(
            lambda: plane.stuck_calls(self.live.now.stuck_seconds),
            sources.problems,
            lambda text: readiness.remark(text, "calls"),
        )
        self._control = ControlPort(parts, sources, lambda: self.live.now, self.counters, self._reread, self._check)
        self._control.begin()
        parts.manager.start()
        for source in sources.all:
            source.start()
        self.addresses = EngineAddresses(
            plane.grpc_address, plane.rest_address, self._listen_for_control(self._control)
        )
        _await_settled(readiness, sources.files.waiting, config.start_seconds)
        parts.load_pool.resize(config.load_threads)
        if not readiness.settled():
            parts.events.subscribe(lambda change: plane.started() if readiness.settled() else None)
        if readiness.settled():  # asked again, as it may have come before anybody listened
            plane.started()
        readiness.begin()
        self._watch.start()
        self._stuck.start()

    def check_decisions(self, check: CheckDecision | None) -> None:
        """As `Engine.check_decisions` says."""
        self._checks_decisions = check

    def _check(self, servable: str, lead: int | None) -> None:
        if self._checks_decisions is not None:
            self._checks_decisions(servable, lead)

    def add_platform(self, name: str, factory: Callable[[], Platform]) -> None:
        """Knows one platform more from now on."""
        if self._sources is None:
            raise FailedPrecondition(NOT_STARTED)
        self._sources.registry.add(name, factory)

    def counters(self) -> dict[str, float]:
        """The data plane's, by sample name."""
        return {} if self._plane is None else self._plane.stats()

    def reload(self, config: EngineConfig, dry_run: bool, requested_by: str = "", reason: str = "") -> ConfigDiff:
        """As `Engine.reload` says."""
        if self._reloader is None:
            raise FailedPrecondition(NOT_STARTED)
        return self._reloader.reload(config, dry_run=dry_run, requested_by=requested_by, reason=reason)

    def refusals(self, action: str, requested_by: str, reason: str) -> AbstractContextManager[None]:
        """A context in which an error is written into the journal on its way out."""
        return refusals(self.lifecycle.journal, action, Requester("", requested_by, reason))

    def replace_models(self, models: Mapping[str, ModelConfig], timeout: float, requested_by: str) -> None:
        """As `Engine.replace_models` says."""
        if self._swap is None:
            raise FailedPrecondition(NOT_STARTED)
        self._swap.replace(models, timeout, requested_by)

    def _swap_models(self, models: Mapping[str, ModelConfig]) -> None:
        self.replace_models(models, self.live.now.start_seconds, RELOAD_REQUEST)

    def _listen_for_control(self, control: ControlPort) -> str:
        return control.listen(self._config, self.status) if self._config.control_address else ""

    def plane(self) -> RunningPlane:
        """The data plane. FailedPrecondition before it is there."""
        if self._plane is None:
            raise FailedPrecondition(NOT_STARTED)
        return self._plane

    def compare(
        self, model: str, versions: tuple[int, int], since: datetime | None, outputs: Sequence[str] | None
    ) -> Comparison:
        """As `Engine.compare` says."""
        from tidegate_serving.inference_log.compare import compare
        from tidegate_serving.inference_log.comparison import ShadowCounts

        root = self._config.log_path
        if root is None:
            raise FailedPrecondition("this engine keeps no log, from which answers are compared: set log_path")
        found = compare(root, model, *versions, outputs=outputs, since=since or datetime.fromtimestamp(0, UTC))
        return replace(found, copies=ShadowCounts.of(self.counters(), model, versions[1]))

    def program(self) -> Program:
        """What the embedding program wants. FailedPrecondition before the engine has started."""
        if self._sources is None:
            raise FailedPrecondition(NOT_STARTED)
        return self._sources.program

    def status(self, servable: str) -> EngineStatus:
        """Where everything stands now."""
        if self._sources is None or self._plane is None:
            raise FailedPrecondition(NOT_STARTED)
        parts, sources = self.lifecycle, self._sources
        report = StatusReport(
            parts.manager,
            parts.monitor,
            parts.reconciler,
            sources.rpc,
            sources.owners,
            sources.problems,
            sources.admission.standing,
            self._plane.stats,
        )
        log_path = self._config.log_path
        return report.make(
            servable,
            (self._plane.grpc_address, self._plane.rest_address),
            "" if log_path is None else str(Path(log_path).absolute()),
        )

    def stop(self, drain_seconds: float) -> bool:
        """Not ready, drain, unload; whether all of it was done in time."""
        deadline = time.monotonic() + drain_seconds
        if self._readiness is not None:
            self._readiness.drain()
        for part in (self._watch, self._stuck, self._data_ports, self._swap):
            if part is not None:
                part.stop()
        for source in self._sources.all if self._sources else ():
            source.stop()
        drained = self._plane is None or self._plane.drain(drain_seconds)
        if self._traces is not None:
            self._traces.close()
        self.lifecycle.front.close()
        deadline = max(deadline, time.monotonic() + _LEAST_SECONDS)

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        self.lifecycle.unload_pool.resize(threads_beside_nothing(self.live.now))
        unloaded = self.lifecycle.manager.stop(left())
        if self._control is not None:
            self._control.stop(left())
        for pool in self.lifecycle.pools:
            pool.stop(left())
        self.lifecycle.monitor.close()
        self._close(drained and unloaded)
        return drained and unloaded

    def _close(self, clean: bool) -> None:
        """Nothing is written into the state directory any more after the journal's last entry."""
        if self._control is not None:
            self._control.close(clean)
        if self._sources is not None:
            self._sources.rpc.close()


def _await_settled(readiness: Readiness, waiting: Callable[[], Collection[str]], seconds: float) -> None:
    """Until all that the engine starts with is settled, or the time is over, which is said; `waiting` are servables of
    which nothing is there yet."""
    if not readiness.wait_settled(lambda: not waiting(), seconds):
        left = ", ".join([*readiness.unsettled(), *sorted(waiting())][:20])
        _log.warning("the engine starts although not every version is settled after %g s: %s", seconds, left)


def _manifest_digests(origins: Mapping[ServableId, object]) -> dict[ServableId, str]:
    """Of the versions that lie in a folder, by what the manager knows of their origins."""
    return {
        servable: origin.manifest_digest
        for servable, origin in origins.items()
        if isinstance(origin, VersionReference) and origin.platform != CALLABLE
    }


def _log_change(change: StateChange) -> None:
    _log.info("%s is %s%s", change.id, change.state.name, f": {change.error_message}" if change.error_message else "")
