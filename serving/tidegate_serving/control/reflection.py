"""gRPC's server reflection on the control port, so that tools such as grpcurl can call it without a .proto file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc

from tidegate_serving.contract.messages import file_of, message
from tidegate_serving.control.access.rules import HEALTH, REFLECTION
from tidegate_serving.control.handlers import Handler, serialize
from tidegate_serving.control.messages import SERVICE

_SERVICES = (SERVICE, HEALTH, *REFLECTION)
_SHOWN = (SERVICE, HEALTH, REFLECTION[0])
_PACKAGE = REFLECTION[0].rpartition(".")[0]
_NOT_FOUND, _UNIMPLEMENTED = 5, 12


def reflection_handlers() -> tuple[grpc.GenericRpcHandler, ...]:
    """Of both names that tools know the protocol by; their messages are the same on the wire."""
    return tuple(
        grpc.method_handlers_generic_handler(service, {"ServerReflectionInfo": _handler()}) for service in REFLECTION
    )


def _handler() -> Handler:
    return grpc.stream_stream_rpc_method_handler(
        _answers,
        request_deserializer=message(f"{_PACKAGE}.ServerReflectionRequest").FromString,
        response_serializer=serialize,
    )


def _answers(requests: Iterator[Any], _context: grpc.ServicerContext) -> Iterator[Any]:
    for request in requests:
        answer = message(f"{_PACKAGE}.ServerReflectionResponse")(valid_host=request.host, original_request=request)
        _fill(answer, request)
        yield answer


def _fill(answer: Any, request: Any) -> None:
    kind = request.WhichOneof("message_request")
    if kind == "list_services":
        for name in _SERVICES:
            answer.list_services_response.service.add(name=name)
    elif kind in ("file_by_filename", "file_containing_symbol"):
        name = getattr(request, kind)
        files = _files(name, by_name=kind == "file_by_filename")
        if files:
            answer.file_descriptor_response.file_descriptor_proto.extend(files)
        else:
            answer.error_response.error_code = _NOT_FOUND
            answer.error_response.error_message = f"{name!r} is not on this port: list the services first"
    else:
        answer.error_response.error_code = _UNIMPLEMENTED
        answer.error_response.error_message = "this port has no extensions: ask for services, files or symbols"


def _files(name: str, *, by_name: bool) -> list[bytes]:
    """The file and what it imports, of those that say what this port offers."""
    offered = {file_of(service).name for service in _SHOWN}
    found = file_of(name, by_name=by_name)
    if found is None or found.name not in offered:
        return []
    return [found.serialized_pb]
