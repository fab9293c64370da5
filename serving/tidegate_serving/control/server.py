"""The control port: grpcio's threaded server, behind an acceptor, before the RPC Source and the control service, with
typed errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent import futures
from dataclasses import replace
from typing import Any, Protocol

import grpc

from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import ResourceExhausted, Unavailable
from tidegate_serving.contract.messages import message
from tidegate_serving.control.acceptor import Acceptor, OpenCalls
from tidegate_serving.control.access.guard import Guard
from tidegate_serving.control.config_service import ConfigService
from tidegate_serving.control.crowd import Crowd, MessageFirst
from tidegate_serving.control.deciding import Requester
from tidegate_serving.control.handlers import stream, unary
from tidegate_serving.control.health import Health
from tidegate_serving.control.log_service import GivesLog
from tidegate_serving.control.messages import SERVICE, from_desired, optional, to_event, to_status
from tidegate_serving.control.reflection import reflection_handlers
from tidegate_serving.control.service import ControlService, refusals
from tidegate_serving.control.status import EngineStatus
from tidegate_serving.control.threads import starting_threads
from tidegate_serving.lifecycle.monitor import StateMonitor

MAX_WATCHERS = 64
MAX_HEALTH_WATCHERS = 16
MAX_READERS = 16
MAX_REFLECTIONS = 16
MAX_WITHOUT_MESSAGE = 32
THREADS = MAX_WATCHERS + MAX_HEALTH_WATCHERS + MAX_READERS + MAX_REFLECTIONS + 2 * MAX_WITHOUT_MESSAGE + 16
MAX_CONNECTIONS = 256
MAX_CALLS = 128
OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 20_000),
    ("grpc.keepalive_time_ms", 60_000),
    (
        "grpc.max_allowed_incoming_connections",
        2 * MAX_CONNECTIONS,
    ),  # those that the acceptor has closed are closed later
    ("grpc.max_concurrent_streams", MAX_CALLS),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),  # whoever watches asks more often than gRPC expects
)
_PACKAGE = "tidegate.v1"
_HEARTBEAT_SECONDS = 0.5


class TakesDesiredStates(Protocol):
    """Who a desired state is handed to, such as a fleet's operations."""

    def set_desired_state(
        self,
        desired: DesiredState,
        expected_revision: int | None = None,
        lead: int | None = None,
        admitted: Collection[str] = (),
    ) -> int:
        """Accepts it and returns its revision, or raises and changes nothing. `lead` is what a fleet's controller says
        to a node, None of anybody else, `admitted` are digests of manifests that engines beside it admitted."""


class ControlServer:
    """Serves `tidegate.v1.Control`, health and reflection. Without a guard anybody who reaches it may do everything."""

    def __init__(
        self,
        source: TakesDesiredStates,
        service: ControlService,
        config: ConfigService,
        log: GivesLog,
        states: StateMonitor,
        status: Callable[[str], EngineStatus],
        guard: Guard | None = None,
    ) -> None:
        self._source = source
        self._service = service
        self._config = config
        self._log = log
        self._states = states
        self._status = status
        self._stopping = threading.Event()
        self._serves = False
        self._watchers = Crowd(MAX_WATCHERS, "watch states")
        self._threads = futures.ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-control")
        self._readers = Crowd(MAX_READERS, "read journal or log")
        is_known = (lambda context: True) if guard is None else guard.is_known
        self._acceptor = Acceptor(MAX_CONNECTIONS)
        guards = [MessageFirst(MAX_WITHOUT_MESSAGE, is_known), *([] if guard is None else [guard])]
        guards.append(OpenCalls(self._acceptor))
        self._server = grpc.server(self._threads, interceptors=guards, options=OPTIONS)
        self._health = Health(MAX_HEALTH_WATCHERS, self._stopping)
        self._server.add_generic_rpc_handlers(
            (self._handlers(), self._health.handlers(), *reflection_handlers(MAX_REFLECTIONS))
        )

    def start(self, address: str, credentials: grpc.ServerCredentials | None = None) -> str:
        """Listens and returns the address with its real port. OSError, naming the address, when it cannot, and
        ResourceExhausted where the system lacks threads."""
        inner = f"unix-abstract:{self._acceptor.inner}"
        try:
            if credentials is None:
                self._server.add_insecure_port(inner)
            else:
                self._server.add_secure_port(inner, credentials)
            with starting_threads(f"the control port {address}"):
                self._server.start()
                self._serves = True
            return self._acceptor.start(address)
        except ResourceExhausted:
            self.stop(0)
            raise
        except (RuntimeError, OSError) as error:
            self.stop(0)
            raise OSError(
                f"control_address {address} cannot be bound ({error}): end what listens there, or name another address "
                "of this machine"
            ) from error

    def stop(self, grace_seconds: float) -> None:
        """Ends the streams after what they have to tell, and the calls after `grace_seconds`."""
        self._stopping.set()
        self._acceptor.leave()
        ended = self._server.stop(grace_seconds)
        if self._serves:  # else nobody ends it, as where its thread could not be started
            ended.wait()
        self._acceptor.close()
        self._threads.shutdown(wait=False)

    def _handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "SetDesiredState": unary(self._set_desired_state, f"{_PACKAGE}.SetDesiredStateRequest"),
                "GetStatus": unary(self._get_status, f"{_PACKAGE}.GetStatusRequest"),
                "Operate": unary(self._service.operate, f"{_PACKAGE}.OperationRequest"),
                "SetLogLevel": unary(self._service.set_log_level, f"{_PACKAGE}.SetLogLevelRequest"),
                "GetSupport": unary(self._service.get_support, f"{_PACKAGE}.GetSupportRequest"),
                "GetConfig": unary(self._config.get_config, f"{_PACKAGE}.GetConfigRequest"),
                "Reload": unary(self._config.reload, f"{_PACKAGE}.ReloadRequest"),
                "ReadJournal": stream(self._read_journal, f"{_PACKAGE}.ReadJournalRequest"),
                "ReadLog": stream(self._read_log, f"{_PACKAGE}.ReadLogRequest"),
                "WatchStates": stream(self._watch_states, f"{_PACKAGE}.WatchStatesRequest"),
            },
        )

    def _set_desired_state(self, request: Any) -> Any:
        # What cannot be had is a source's to say.
        desired = replace(from_desired(request.desired), unusable={})
        requester = Requester(desired.servable, desired.requested_by, desired.reason)
        with refusals(self._service.journal, "push", requester):
            revision = self._source.set_desired_state(
                desired, optional(request, "expected_revision"), optional(request, "lead"), tuple(request.admitted)
            )
        return message("tidegate.v1.SetDesiredStateResponse")(revision=revision)

    def _get_status(self, request: Any) -> Any:
        return to_status(self._status(request.servable))

    def _read_journal(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        return self._read(self._service.read_journal(request), context)

    def _read_log(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        return self._read(self._log.read(request), context)

    def _read(self, answers: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        """One that does not take what it asked for keeps a thread."""
        with self._readers.one_more(context):
            yield from answers

    def _watch_states(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with self._watchers.one_more(context), self._states.watch(request.servable) as feed:
            context.add_callback(feed.wake)
            yield from map(to_event, feed.present)
            while context.is_active() and not self._stopping.is_set():
                change = feed.next(_HEARTBEAT_SECONDS)
                if change is not None:
                    yield to_event(change)
            while context.is_active() and (change := feed.next(0)) is not None:
                yield to_event(change)
        if self._stopping.is_set():
            raise Unavailable("the engine is stopping: watch again once it is back")
