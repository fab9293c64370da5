"""gRPC's server reflection, so that tools such as grpcurl can call a port without a .proto file.

The control port answers it itself; the data plane hands the questions over that come to its gRPC port.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.messages import file_of, message, parsed
from tidegate_serving.control.access.rules import HEALTH, REFLECTION
from tidegate_serving.control.crowd import Crowd
from tidegate_serving.control.handlers import Handler, abort
from tidegate_serving.control.messages import SERVICE

CONTROL_SERVICES = (SERVICE, HEALTH, *REFLECTION)
DATA_SERVICES = (
    "inference.GRPCInferenceService",
    "tensorflow.serving.ModelService",
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.SessionService",
    HEALTH,
    *REFLECTION,
)
_PACKAGE = REFLECTION[0].rpartition(".")[0]
_REQUEST, _RESPONSE = f"{_PACKAGE}.ServerReflectionRequest", f"{_PACKAGE}.ServerReflectionResponse"
_NOT_FOUND, _UNIMPLEMENTED = 5, 12


class Reflection:
    """What a port with these services answers: they, and the files that describe them with all that these import."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = services
        self._offered: set[str] = set()
        waiting = [file for file in map(file_of, services) if file is not None]
        while waiting:
            file = waiting.pop()
            if file.name not in self._offered:
                self._offered.add(file.name)
                waiting.extend(file.dependencies)

    def answer(self, question: bytes) -> bytes:
        """The answer to one question, as bytes. InvalidInput for bytes that are none."""
        return bytes(self.respond(parsed(_REQUEST, question, "the question")).SerializeToString())

    def respond(self, question: Any) -> Any:
        """The same as messages."""
        answer = message(_RESPONSE)(valid_host=question.host, original_request=question)
        kind = question.WhichOneof("message_request")
        if kind == "list_services":
            for name in self._services:
                answer.list_services_response.service.add(name=name)
        elif kind in ("file_by_filename", "file_containing_symbol"):
            name = getattr(question, kind)
            found = file_of(name, by_name=kind == "file_by_filename")
            if found is not None and found.name in self._offered:
                answer.file_descriptor_response.file_descriptor_proto.append(found.serialized_pb)
            else:
                answer.error_response.error_code = _NOT_FOUND
                answer.error_response.error_message = f"{name!r} is not on this port: list the services first"
        else:
            answer.error_response.error_code = _UNIMPLEMENTED
            answer.error_response.error_message = "this port has no extensions: ask for services, files or symbols"
        return answer


def reflection_handlers(most: int) -> tuple[grpc.GenericRpcHandler, ...]:
    """The control port's, of both names that tools know the protocol by; their messages are the same on the wire. So
    many clients may ask at a time."""
    reflection, asking = Reflection(CONTROL_SERVICES), Crowd(most)

    def answers(questions: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with asking.one_more(context):
            try:
                yield from map(reflection.answer, questions)
            except InvalidInput as error:
                abort(context, error)

    def handler() -> Handler:
        return grpc.stream_stream_rpc_method_handler(answers)

    return tuple(
        grpc.method_handlers_generic_handler(service, {"ServerReflectionInfo": handler()}) for service in REFLECTION
    )
