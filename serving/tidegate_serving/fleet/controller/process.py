"""`tidegate fleet controller`: runs a controller with its control port as a process, until it is told to stop.

The control port speaks as an engine's does, so whatever pushes to an engine, or decides about its models, does so to a
fleet.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import ExitStack
from dataclasses import replace

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.view import ConfigDiff
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import FailedPrecondition, TidegateError
from tidegate_serving.control.access.gate import guard_of, tls_of
from tidegate_serving.control.config_service import ConfigService
from tidegate_serving.control.server import ControlServer
from tidegate_serving.control.service import ControlService
from tidegate_serving.control.status import EngineStatus
from tidegate_serving.control.support import RecentLines, Support
from tidegate_serving.control.threads import starting_threads
from tidegate_serving.fleet.controller.controller import Controller
from tidegate_serving.fleet.controller.log import FleetLog
from tidegate_serving.fleet.controller.operations import FleetOperations
from tidegate_serving.fleet.controller.status import fleet_status, with_log
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.state.keys import FleetKeys
from tidegate_serving.fleet.state.view import FleetView
from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.journal.journal import Journal
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.runtime.ready_file import write_ready_file
from tidegate_serving.runtime.running_engine import EngineAddresses
from tidegate_serving.sources.expiry import Expiry
from tidegate_serving.sources.problems import SourceProblem, SourceProblems
from tidegate_serving.stop_signal import StopSignal

_USER_MISTAKE = 2
_GRACE_SECONDS = 5.0
_log = logging.getLogger(__name__)


class ControllerProcess:
    """The parts of a controller, from a config of which the keys of the control port, `state_directory`, for the
    journal, and the table `[fleet]` count."""

    def __init__(self, config: EngineConfig) -> None:
        """FailedPrecondition for a config without etcd."""
        if not config.fleet.etcd:
            raise FailedPrecondition(
                "a controller needs etcd: name its endpoints with --etcd, or fleet.etcd in the config"
            )
        self._config = config
        self._keys = FleetKeys(config.fleet.name)
        self._problems = SourceProblems()
        self._journal = Journal(config.state_directory)
        self._lines = RecentLines()
        events = EventBus()
        self._monitor = StateMonitor(events)
        events.subscribe(self._journal.heard)
        self._problems.subscribe(self._note)
        name = config.fleet.node or f"{os.uname().nodename}-{os.getpid()}"
        self._asking = Etcd(config.fleet.etcd)
        self._expiry = Expiry(lambda name: self._operations.end_over(name))
        self._controller = Controller(
            Etcd(config.fleet.etcd),
            self._keys,
            name,
            _connection,
            config.fleet.lease_seconds,
            events,
            self._problems,
            self._expiry.note,
        )
        self._operations = FleetOperations(self._asking, self._keys, self._journal, self._controller.expect)
        self._log = FleetLog(self._controller.log_paths)
        self._running = ExitStack()

    def start(self) -> str:
        """Begins, and returns the control port's address. OSError where it cannot be bound, and the contract's errors
        for an access file or certificates that cannot be used, or where the system lacks threads. `stop` ends what was
        begun by then."""
        config = self._config
        guard, tls = guard_of(config, self._problems, self._journal), tls_of(config, self._problems)
        self._lines.attach()
        self._running.callback(self._lines.detach)
        threads = f"the controller of fleet {config.fleet.name}"
        with starting_threads(threads):
            self._journal.start()
        self._running.callback(self._journal.stop)
        self._journal.add(Entry(Kind.ENGINE, "start", f"a controller of fleet {config.fleet.name} starts"))
        support = Support(lambda: config, dict, self._journal, self._lines)
        server = ControlServer(
            self._operations,
            ControlService(self._operations.decide, self._journal, support.files),
            ConfigService(lambda: config, _no_reload),
            self._log,
            self._monitor,
            self._status,
            guard,
        )
        address = server.start(config.control_address, tls)
        with ExitStack() as unless_begun, starting_threads(threads):
            unless_begun.callback(server.stop, 0)
            self._controller.start()
            self._running.callback(self._controller.stop)
            self._expiry.start()
            self._running.callback(self._expiry.stop)
            unless_begun.pop_all()
        self._running.callback(server.stop, _GRACE_SECONDS)
        return address

    def stop(self) -> None:
        """Ends what was begun; another controller may lead at once."""
        self._running.close()
        self._asking.close()

    def _status(self, servable: str) -> EngineStatus:
        """Of now: whoever has just pushed sees that."""
        view = FleetView.of(self._asking.read(self._keys.prefix))
        status = fleet_status(view, self._monitor.states(), self._problems.of_sources(), servable)
        return replace(with_log(status, self._log), counters=self._controller.counters(servable))

    def _note(self, problem: SourceProblem, present: bool) -> None:
        text = problem.error.message if present else f"{problem.source} {problem.ending}"
        code = problem.error.code if present else ""
        self._journal.add(Entry(Kind.SOURCE, "problem" if present else "settled", text, error_code=code))


def run_controller(config: EngineConfig) -> int:
    """Controls until SIGTERM or SIGINT; 0 then, 2 for a config that cannot be used. Has to run on the main thread."""
    with StopSignal() as stop:
        stop.guard.arm(int(2 * _GRACE_SECONDS * 1000))
        process = ControllerProcess(config)
        try:
            address = process.start()
        except (TidegateError, OSError) as error:
            process.stop()
            stop.guard.ended(_USER_MISTAKE)
            print(f"tidegate: {error}", file=sys.stderr)
            return _USER_MISTAKE
        if config.ready_file is not None:
            write_ready_file(config.ready_file, EngineAddresses("", "", address))
        _log.info("controlling fleet %s: control %s", config.fleet.name, address)
        while not stop.wait():
            _log.info("a controller has no config to read again")
        if config.ready_file is not None:
            config.ready_file.unlink(missing_ok=True)
        process.stop()
        stop.guard.ended(0)
        return 0


def _connection(control: str) -> EngineConnection:
    """A node's control port, with the token and certificates that this process' TIDEGATE_* variables name."""
    return EngineConnection.from_environment({**os.environ, "TIDEGATE_CONTROL": control})


def _no_reload(*, dry_run: bool, requested_by: str, reason: str) -> ConfigDiff:
    raise FailedPrecondition("a fleet's controller reads no config again: start it anew")
