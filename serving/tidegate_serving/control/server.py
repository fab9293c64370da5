"""The control port: grpcio's threaded server in front of the RPC Source and the control service, with typed errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from tidegate_serving.contract.errors import ResourceExhausted, TidegateError, Unavailable
from tidegate_serving.contract.messages import message
from tidegate_serving.control.config_service import ConfigService
from tidegate_serving.control.messages import SERVICE, from_desired, optional, to_event, to_status
from tidegate_serving.control.operations import Requester
from tidegate_serving.control.service import ControlService, refusals
from tidegate_serving.control.status import EngineStatus
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.sources.rpc.source import RpcSource
from tidegate_serving.wire_errors import ERROR_CODE_KEY

MAX_WATCHERS = 64
THREADS = MAX_WATCHERS + 16
_HEARTBEAT_SECONDS = 0.5
_log = logging.getLogger(__name__)


class ControlServer:
    """Serves `tidegate.v1.Control`. There is no authentication: it belongs on a loopback address."""

    def __init__(
        self,
        source: RpcSource,
        service: ControlService,
        config: ConfigService,
        states: StateMonitor,
        status: Callable[[str], EngineStatus],
    ) -> None:
        self._source = source
        self._service = service
        self._config = config
        self._states = states
        self._status = status
        self._stopping = threading.Event()
        self._watchers = threading.Semaphore(MAX_WATCHERS)
        self._threads = futures.ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-control")
        self._server = grpc.server(self._threads, options=(("grpc.so_reuseport", 0),))
        self._server.add_generic_rpc_handlers((self._handlers(),))

    def start(self, address: str) -> str:
        """Listens and returns the address with its real port. OSError, naming the address, when it cannot."""
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"control_address {address} cannot be bound: {error}") from error
        self._server.start()
        return f"{address.rpartition(':')[0]}:{port}"

    def stop(self, grace_seconds: float) -> None:
        """Ends the streams after what they have to tell, and the calls after `grace_seconds`."""
        self._stopping.set()
        self._server.stop(grace_seconds).wait()
        self._threads.shutdown(wait=False)

    def _handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "SetDesiredState": _unary(self._set_desired_state, "SetDesiredStateRequest"),
                "GetStatus": _unary(self._get_status, "GetStatusRequest"),
                "Operate": _unary(self._service.operate, "OperationRequest"),
                "SetLogLevel": _unary(self._service.set_log_level, "SetLogLevelRequest"),
                "GetSupport": _unary(self._service.get_support, "GetSupportRequest"),
                "GetConfig": _unary(self._config.get_config, "GetConfigRequest"),
                "Reload": _unary(self._config.reload, "ReloadRequest"),
                "ReadJournal": _stream(lambda request, _: self._service.read_journal(request), "ReadJournalRequest"),
                "WatchStates": _stream(self._watch_states, "WatchStatesRequest"),
            },
        )

    def _set_desired_state(self, request: Any) -> Any:
        desired = from_desired(request.desired)
        requester = Requester(desired.servable, desired.requested_by, desired.reason)
        with refusals(self._service.journal, "push", requester):
            revision = self._source.set_desired_state(desired, optional(request, "expected_revision"))
        return message("tidegate.v1.SetDesiredStateResponse")(revision=revision)

    def _get_status(self, request: Any) -> Any:
        return to_status(self._status(request.servable))

    def _watch_states(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        if not self._watchers.acquire(blocking=False):
            raise ResourceExhausted(f"{MAX_WATCHERS} clients watch states already, which is the limit: try later")
        try:
            with self._states.watch(request.servable) as feed:
                context.add_callback(feed.wake)
                yield from map(to_event, feed.present)
                while context.is_active() and not self._stopping.is_set():
                    change = feed.next(_HEARTBEAT_SECONDS)
                    if change is not None:
                        yield to_event(change)
                while context.is_active() and (change := feed.next(0)) is not None:
                    yield to_event(change)
        finally:
            self._watchers.release()
        if self._stopping.is_set():
            raise Unavailable("the engine is stopping: watch again once it is back")


def _unary(call: Callable[[Any], Any], request: str) -> grpc.RpcMethodHandler[Any, Any]:
    def handle(message_in: Any, context: grpc.ServicerContext) -> Any:
        try:
            return call(message_in)
        except Exception as error:
            _abort(context, error)

    return grpc.unary_unary_rpc_method_handler(
        handle,
        request_deserializer=message(f"tidegate.v1.{request}").FromString,
        response_serializer=_serialize,
    )


def _stream(
    call: Callable[[Any, grpc.ServicerContext], Iterator[Any]], request: str
) -> grpc.RpcMethodHandler[Any, Any]:
    def handle(message_in: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from call(message_in, context)
        except Exception as error:
            _abort(context, error)

    return grpc.unary_stream_rpc_method_handler(
        handle,
        request_deserializer=message(f"tidegate.v1.{request}").FromString,
        response_serializer=_serialize,
    )


def _abort(context: grpc.ServicerContext, error: Exception) -> None:
    if isinstance(error, TidegateError):
        code, name, text = error.grpc_code, error.code, error.message
    else:
        _log.exception("a control call failed")
        code, name, text = TidegateError.grpc_code, TidegateError.code, f"{type(error).__name__}: {error}"
    context.set_trailing_metadata(((ERROR_CODE_KEY, name),))
    context.abort(next(status for status in grpc.StatusCode if status.value[0] == code), text)


def _serialize(response: Any) -> bytes:
    data: bytes = response.SerializeToString()
    return data
