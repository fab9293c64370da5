"""gRPC's health protocol on the control port: whether this engine takes control calls. It needs no token."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc

from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.messages import message
from tidegate_serving.control.access.rules import HEALTH
from tidegate_serving.control.crowd import Crowd
from tidegate_serving.control.handlers import stream, unary
from tidegate_serving.control.messages import SERVICE

_SERVICES = ("", SERVICE)
_HEARTBEAT_SECONDS = 0.5
_REQUEST = f"{HEALTH.rpartition('.')[0]}.HealthCheckRequest"
_RESPONSE = f"{HEALTH.rpartition('.')[0]}.HealthCheckResponse"
_LIST = f"{HEALTH.rpartition('.')[0]}.HealthListRequest"
_LISTED = f"{HEALTH.rpartition('.')[0]}.HealthListResponse"
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3


class Health:
    """SERVING until `stopping` is set. At most `most_watchers` at a time."""

    def __init__(self, most_watchers: int, stopping: threading.Event) -> None:
        self._watchers = Crowd(most_watchers)
        self._stopping = stopping

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a server adds."""
        methods = {
            "Check": unary(self._check, _REQUEST),
            "List": unary(self._list, _LIST),
            "Watch": stream(self._watch, _REQUEST),
        }
        return grpc.method_handlers_generic_handler(HEALTH, methods)

    def _check(self, request: Any) -> Any:
        if request.service not in _SERVICES:
            raise NotFound(f"service {request.service!r} is not on this port: ask for {SERVICE}, or for none")
        return self._now(request.service)

    def _list(self, request: Any) -> Any:
        return message(_LISTED)(statuses={service: self._now(service) for service in _SERVICES})

    def _watch(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with self._watchers.one_more(context):
            yield self._now(request.service)
            while context.is_active() and not self._stopping.wait(_HEARTBEAT_SECONDS):
                pass
            if context.is_active():
                yield self._now(request.service)

    def _now(self, service: str) -> Any:
        status = _NOT_SERVING if self._stopping.is_set() else _SERVING
        return message(_RESPONSE)(status=status if service in _SERVICES else _SERVICE_UNKNOWN)
