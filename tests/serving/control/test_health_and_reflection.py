"""gRPC's own services on the control port, asked as load balancers and grpcurl ask them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from tests.support.engine.process import EngineProcess
from tests.support.engine.remote import RemoteEngine

from tidegate_serving.channels import open_channel, token_metadata
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.messages import message
from tidegate_serving.control.access.rules import REFLECTION

HEALTH, REFLECT = "grpc.health.v1", "grpc.reflection.v1"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteEngine]:
    remote = RemoteEngine(tmp_path_factory.mktemp("health"), allow_unverified=True)
    with remote.process:
        yield remote


def ask(connection: EngineConnection, method: str, request: Any, answer: str) -> Any:
    with open_channel(connection) as channel:
        call: Any = channel.unary_unary(
            f"/{HEALTH}.Health/{method}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=message(f"{HEALTH}.{answer}").FromString,
        )
        return call(request, timeout=20)


def check(connection: EngineConnection, service: str) -> int:
    request = message(f"{HEALTH}.HealthCheckRequest")(service=service)
    return int(ask(connection, "Check", request, "HealthCheckResponse").status)


def reflect(connection: EngineConnection, service: str, **asked: str) -> Any:
    with open_channel(connection) as channel:
        call: Any = channel.stream_stream(
            f"/{service}/ServerReflectionInfo",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=message(f"{REFLECT}.ServerReflectionResponse").FromString,
        )
        request = message(f"{REFLECT}.ServerReflectionRequest")(**asked)
        return next(iter(call(iter([request]), timeout=20, metadata=token_metadata(connection))))


@pytest.mark.parametrize("service", ["", "tidegate.v1.Control"])
def test_health_needs_no_token(engine: RemoteEngine, service: str) -> None:
    assert check(engine.connection(), service) == 1


def test_health_of_all_services_needs_none_either(engine: RemoteEngine) -> None:
    listed = ask(engine.connection(), "List", message(f"{HEALTH}.HealthListRequest")(), "HealthListResponse")
    assert {service: found.status for service, found in listed.statuses.items()} == {"": 1, "tidegate.v1.Control": 1}


def test_health_of_a_service_that_is_not_there(engine: RemoteEngine) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        check(engine.connection(), "other")
    status: Any = refused.value
    assert status.code() is grpc.StatusCode.NOT_FOUND


def test_who_watches_health_hears_that_the_engine_stops(tmp_path: Any) -> None:
    with EngineProcess(tmp_path, allow_unverified=True) as process:
        with grpc.insecure_channel(process.addresses["control"]) as channel:
            watch: Any = channel.unary_stream(
                f"/{HEALTH}.Health/Watch",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=message(f"{HEALTH}.HealthCheckResponse").FromString,
            )(message(f"{HEALTH}.HealthCheckRequest")(), timeout=60)
            assert next(watch).status == 1
            process.terminate()
            assert next(watch).status == 2
        assert process.wait() == 0


@pytest.mark.parametrize("service", REFLECTION)
def test_reflection_shows_what_the_port_offers(engine: RemoteEngine, service: str) -> None:
    connection = engine.connection("look")
    names = [one.name for one in reflect(connection, service, list_services="").list_services_response.service]
    assert names == ["tidegate.v1.Control", "grpc.health.v1.Health", *REFLECTION]
    answer = reflect(connection, service, file_containing_symbol="tidegate.v1.Control")
    file = descriptor_pb2.FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0])
    assert "SetDesiredState" in [method.name for method in file.service[0].method]
    assert not file.dependency
    again = reflect(connection, service, file_by_filename=file.name)
    assert again.file_descriptor_response == answer.file_descriptor_response


def test_reflection_shows_nothing_else(engine: RemoteEngine) -> None:
    answer = reflect(engine.connection("look"), REFLECTION[0], file_containing_symbol="tensorflow.serving.ModelSpec")
    assert answer.error_response.error_code == 5
    answer = reflect(engine.connection("look"), REFLECTION[0], all_extension_numbers_of_type="x")
    assert answer.error_response.error_code == 12


def test_reflection_needs_a_token(engine: RemoteEngine) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        reflect(engine.connection(), REFLECTION[0], list_services="")
    status: Any = refused.value
    assert status.code() is grpc.StatusCode.UNAUTHENTICATED
