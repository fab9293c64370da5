"""`tidegate fleet router`: runs a router as a process, until it is told to stop."""

from __future__ import annotations

import logging
import os
import sys

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.open_files import allow_many
from tidegate_serving.contract.errors import FailedPrecondition, TidegateError
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.router.node_certificates import NodeCertificates
from tidegate_serving.fleet.router.router import FleetRouter
from tidegate_serving.fleet.state.keys import FleetKeys
from tidegate_serving.requests.forwarder import start_forwarder
from tidegate_serving.runtime.data_ports import DataPorts
from tidegate_serving.runtime.ready_file import write_ready_file
from tidegate_serving.runtime.running_engine import EngineAddresses
from tidegate_serving.sources.problems import SourceProblems
from tidegate_serving.stop_signal import StopSignal

_USER_MISTAKE = 2
_BEYOND_SECONDS = 6.5  # of a stop beside its drain: one call to an etcd that may be away, and the end of the process
_log = logging.getLogger(__name__)


def run_router(config: EngineConfig) -> int:
    """Forwards until SIGTERM or SIGINT, by the keys of the data ports and the table `[fleet]` of an engine's config.

    0 after a clean stop, 1 where not all was answered within `drain_seconds`, 2 for a config that cannot be used or an
    address that is taken. Has to run on the main thread.
    """
    allow_many(config.max_connections)
    fleet, problems = config.fleet, SourceProblems()
    with StopSignal() as stop:
        stop.guard.arm(int((config.drain_seconds + _BEYOND_SECONDS) * 1000))
        try:
            if not fleet.etcd:
                raise FailedPrecondition(
                    "a router needs etcd: name its endpoints with --etcd, or fleet.etcd in the config"
                )
            name = fleet.node or f"{os.uname().nodename}-{os.getpid()}"
            router = FleetRouter(Etcd(fleet.etcd), FleetKeys(fleet.name), name, fleet.lease_seconds, problems)
            ports, certificates = DataPorts(config, problems), NodeCertificates(fleet, problems)
            forwarder = start_forwarder(config, ports.security(), certificates.read(), router.want)
        except (TidegateError, OSError) as error:
            stop.guard.ended(_USER_MISTAKE)
            print(f"tidegate: {error}", file=sys.stderr)
            return _USER_MISTAKE
        router.start(forwarder)
        ports.watch(forwarder)
        certificates.watch(forwarder)
        addresses = EngineAddresses(forwarder.grpc_address or "", forwarder.rest_address or "", "")
        if config.ready_file is not None:
            write_ready_file(config.ready_file, addresses)
        _log.info("routing to fleet %s: gRPC %s, REST %s", fleet.name, addresses.grpc, addresses.rest)
        while not stop.wait():
            _log.info("a router reads no config again")
        if config.ready_file is not None:
            config.ready_file.unlink(missing_ok=True)
        ports.stop()
        certificates.stop()
        answered = forwarder.stop(config.drain_seconds)
        router.stop()
        if answered:
            stop.guard.ended(0)
        return 0 if answered else 1
