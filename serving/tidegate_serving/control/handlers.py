"""gRPC handlers of the control port, and how errors of ours leave it: with the stable code beside gRPC's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn, TypeAlias
from urllib.parse import unquote

import grpc

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.messages import parsed
from tidegate_serving.contract.words import cut, words_of
from tidegate_serving.wire_errors import ERROR_CODE_KEY

_MOST_BYTES = 6000
_log = logging.getLogger(__name__)
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


def unary(call: Callable[[Any], Any], request: str) -> Handler:
    """One answer to a message of a full name."""

    def handle(message_in: Any, context: grpc.ServicerContext) -> Any:
        try:
            return call(message_in)
        except Exception as error:
            abort(context, error)

    return grpc.unary_unary_rpc_method_handler(
        handle, request_deserializer=partial(parsed, request, what="the message"), response_serializer=serialize
    )


def stream(call: Callable[[Any, grpc.ServicerContext], Iterator[Any]], request: str) -> Handler:
    """Answers to a message of a full name, one after the other."""

    def handle(message_in: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from call(message_in, context)
        except Exception as error:
            abort(context, error)

    return grpc.unary_stream_rpc_method_handler(
        handle, request_deserializer=partial(parsed, request, what="the message"), response_serializer=serialize
    )


def abort(context: grpc.ServicerContext, error: Exception) -> NoReturn:
    """Ends a call with an error, and leaves the handler by an exception of gRPC's."""
    if isinstance(error, TidegateError):
        code, name, text = error.grpc_code, error.code, error.message
    else:
        _log.error("a control call failed", exc_info=error)
        code, name, text = TidegateError.grpc_code, TidegateError.code, words_of(error)
    context.set_trailing_metadata(((ERROR_CODE_KEY, name),))
    context.abort(next(status for status in grpc.StatusCode if status.value[0] == code), _sendable(text))


def _sendable(text: str) -> str:
    """As much of a text as clients take: all headers of an answer in 8 KiB, and gRPC writes each byte that is no plain
    ASCII as three. Of a longer one they would get no word, and another code."""
    size = 0
    for place, character in enumerate(text):
        plain = " " <= character <= "~" and character != "%"
        size += 1 if plain else 3 * len(character.encode("utf-8", "surrogatepass"))
        if size > _MOST_BYTES:
            return cut(text, place)
    return text


def serialize(response: Any) -> bytes:
    """A message's bytes."""
    data: bytes = response.SerializeToString()
    return data


def origin(context: grpc.ServicerContext) -> str:
    """Where a call comes from, host and port: the acceptor's end of its connection has a name that ends so."""
    return unquote(context.peer().rpartition("/")[2])
