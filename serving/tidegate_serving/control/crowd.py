"""Keeps clients that stay for long from taking the control port's threads: there are so many for them, and no more."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from tidegate_serving.contract.errors import InvalidInput, ResourceExhausted
from tidegate_serving.control.handlers import Handler, abort


class Crowd:
    """Calls of which each holds a thread for as long as its client likes. Where one more than `most` comes, the oldest
    of the connection that has the most is cancelled. For any number of threads.

    Where no connection has several, the oldest of all goes, since an honest client is never there for long; if
    `all_stay` says what they do, such as "watch states", they may be there for ever, and the one that came is refused.
    """

    def __init__(self, most: int, all_stay: str = "") -> None:
        self._most = most
        self._all_stay = all_stay
        self._lock = threading.Lock()
        self._calls: dict[int, tuple[str, grpc.ServicerContext]] = {}

    @contextlib.contextmanager
    def one_more(self, context: grpc.ServicerContext) -> Iterator[None]:
        """A call is one of them meanwhile. ResourceExhausted where it is one too many."""
        connection, goes = context.peer(), None
        with self._lock:
            if len(self._calls) >= self._most:
                goes = self._calls.pop(self._who_goes(connection))[1]
            self._calls[id(context)] = (connection, context)
        if goes is not None:
            goes.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._calls.pop(id(context), None)

    def _who_goes(self, newcomer: str) -> int:
        counts = Counter(connection for connection, _ in self._calls.values())
        counts[newcomer] += 1
        most = max(counts.values())
        if most == 1 and self._all_stay:
            raise ResourceExhausted(f"{self._most} clients {self._all_stay} already, which is the limit: try later")
        return next(number for number, (connection, _) in self._calls.items() if counts[connection] == most)


class MessageFirst(grpc.ServerInterceptor):
    """Has calls that take one message wait for it in a crowd; gRPC's own server would wait for it for ever.

    Those of callers who are not known wait in a crowd of their own, so that they take no place from others.
    """

    def __init__(self, most: int, is_known: Callable[[grpc.ServicerContext], bool]) -> None:
        self._known, self._strangers = Crowd(most), Crowd(most)
        self._is_known = is_known

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Handler | None], details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """The handler of a call, which takes a stream of messages, of which it reads one."""
        found = continuation(details)
        if found is None or found.request_streaming:
            return found
        handler: Any = found
        read, write = handler.request_deserializer, handler.response_serializer

        def answer(messages: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            return handler.unary_unary(self._one_of(messages, context, read), context)

        def answers(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
            yield from handler.unary_stream(self._one_of(messages, context, read), context)

        # gRPC itself would write a traceback for each message that cannot be read.
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(answers, None, write)
        return grpc.stream_unary_rpc_method_handler(answer, None, write)

    def _one_of(self, messages: Iterator[bytes], context: grpc.ServicerContext, read: Callable[[bytes], Any]) -> Any:
        crowd = self._known if self._is_known(context) else self._strangers
        with crowd.one_more(context):
            found = next(messages, None)
        if found is None:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message: send one")
        try:
            return read(found)
        except InvalidInput as error:
            abort(context, error)
