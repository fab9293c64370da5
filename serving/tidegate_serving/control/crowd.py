"""Keeps clients that say nothing from taking the control port's threads: there are so many for them, and no more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from tidegate_serving.control.handlers import Handler


class Crowd:
    """Calls of which each holds a thread for as long as its client likes. Where one more than `most` comes, the one
    that has been there longest is cancelled: an honest client is never there for long. For any number of threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls: dict[int, grpc.ServicerContext] = {}

    @contextlib.contextmanager
    def one_more(self, context: grpc.ServicerContext) -> Iterator[None]:
        """A call is one of them meanwhile."""
        with self._lock:
            self._calls[id(context)] = context
            first = next(iter(self._calls.values())) if len(self._calls) > self._most else None
            if first is not None:
                del self._calls[id(first)]
        if first is not None:
            first.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._calls.pop(id(context), None)


class MessageFirst(grpc.ServerInterceptor):
    """Has calls that take one message wait for it in a crowd; gRPC's own server would wait for it for ever."""

    def __init__(self, most: int) -> None:
        self._waiting = Crowd(most)

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Handler | None], details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """The handler of a call, which takes a stream of messages, of which it reads one."""
        found = continuation(details)
        if found is None or found.request_streaming:
            return found
        handler: Any = found
        coding = handler.request_deserializer, handler.response_serializer

        def answer(messages: Iterator[Any], context: grpc.ServicerContext) -> Any:
            return handler.unary_unary(self._one_of(messages, context), context)

        def answers(messages: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            yield from handler.unary_stream(self._one_of(messages, context), context)

        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(answers, *coding)
        return grpc.stream_unary_rpc_method_handler(answer, *coding)

    def _one_of(self, messages: Iterator[Any], context: grpc.ServicerContext) -> Any:
        with self._waiting.one_more(context):
            found = next(messages, None)
        if found is None:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message: send one")
        return found
