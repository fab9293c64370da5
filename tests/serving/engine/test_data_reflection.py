"""gRPC's server reflection on the data port: tools learn of every service, and call it by what they learnt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import publish
from tritonclient.grpc import model_config_pb2, service_pb2

from tidegate_serving.contract.messages import message
from tidegate_serving.control.access.rules import REFLECTION

PACKAGE = "grpc.reflection.v1"
SERVICES = [
    "inference.GRPCInferenceService",
    "tensorflow.serving.ModelService",
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.SessionService",
    "grpc.health.v1.Health",
    *REFLECTION,
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder: Path = tmp_path_factory.mktemp("reflection")
    path = publish(folder / "r", "m", 1)
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True) as running:
        with running.control() as control:
            push_and_wait(control, path)
        yield running


@pytest.fixture
def channel(engine: EngineProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(engine.addresses["grpc"]) as open_channel:
        yield open_channel


def ask(channel: grpc.Channel, service: str, questions: list[dict[str, str]]) -> list[Any]:
    """All answers, each question sent once the one before is answered."""
    request = message(f"{PACKAGE}.ServerReflectionRequest")
    answers: list[Any] = []

    def one_by_one() -> Iterator[Any]:
        for question in questions:
            yield request(**question)

    call: Any = channel.stream_stream(
        f"/{service}/ServerReflectionInfo",
        request_serializer=lambda one: one.SerializeToString(),
        response_deserializer=message(f"{PACKAGE}.ServerReflectionResponse").FromString,
    )
    answers.extend(call(one_by_one(), timeout=30))
    return answers


def learnt(channel: grpc.Channel, symbol: str) -> descriptor_pool.DescriptorPool:
    """What a tool knows once it has asked for a symbol, and for every file that is imported."""
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    questions = [{"file_containing_symbol": symbol}]
    while questions:
        answers = ask(channel, REFLECTION[0], questions)
        assert len(answers) == len(questions)
        for answer in answers:
            (data,) = answer.file_descriptor_response.file_descriptor_proto
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            files[file.name] = file
        missing = {name for file in files.values() for name in file.dependency} - set(files)
        questions = [{"file_by_filename": name} for name in sorted(missing)]
    pool = descriptor_pool.DescriptorPool()
    waiting = dict(files)
    while waiting:
        ready = next(name for name, file in waiting.items() if not set(file.dependency) & set(waiting))
        pool.Add(waiting.pop(ready))
    return pool


@pytest.mark.parametrize("service", REFLECTION)
def test_every_service_is_listed_and_described(channel: grpc.Channel, service: str) -> None:
    first, *others = ask(channel, service, [{"list_services": ""}, *({"file_containing_symbol": n} for n in SERVICES)])
    assert [one.name for one in first.list_services_response.service] == SERVICES
    for name, answer in zip(SERVICES, others, strict=True):
        (data,) = answer.file_descriptor_response.file_descriptor_proto
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
        assert name in [f"{file.package}.{one.name}" for one in file.service]


@pytest.mark.parametrize(
    ("symbol", "file"),
    [
        ("inference.GRPCInferenceService.ModelInfer", "open_inference.proto"),
        ("tensorflow.serving.PredictionService.Predict", "tensorflow_serving/apis/prediction_service.proto"),
        ("grpc.health.v1.Health.Check", "health.proto"),
    ],
)
def test_a_method_is_a_symbol_too(channel: grpc.Channel, symbol: str, file: str) -> None:
    """ghz asks for the method that it is to call; grpcurl for the service."""
    (answer,) = ask(channel, REFLECTION[0], [{"file_containing_symbol": symbol}])
    (data,) = answer.file_descriptor_response.file_descriptor_proto
    assert descriptor_pb2.FileDescriptorProto.FromString(data).name == file


def test_a_call_made_of_what_was_learnt_is_answered(channel: grpc.Channel) -> None:
    pool = learnt(channel, "inference.GRPCInferenceService")
    method = pool.FindServiceByName("inference.GRPCInferenceService").methods_by_name["ModelInfer"]
    request: Any = message_factory.GetMessageClass(method.input_type)(model_name="m", id="by reflection")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[2])
    tensor.contents.fp32_contents.extend([1.0, 2.0])
    call: Any = channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=lambda one: one.SerializeToString(),
        response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
    )
    answer = call(request, timeout=30)
    assert (answer.model_name, answer.model_version, answer.id) == ("m", "1", "by reflection")
    (output,) = answer.outputs
    raw = np.frombuffer(answer.raw_output_contents[0], np.float32) if answer.raw_output_contents else None
    values = list(output.contents.fp32_contents) if raw is None else raw.tolist()
    assert len(values) == 2


def test_files_that_a_service_imports_are_shown_too(channel: grpc.Channel) -> None:
    pool = learnt(channel, "tensorflow.serving.PredictionService")
    request: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.serving.PredictRequest"))()
    assert request.inputs["x"].DESCRIPTOR.full_name == "tensorflow.TensorProto"


def test_every_method_of_the_protocol_is_there(channel: grpc.Channel) -> None:
    """As the official client has them, with the same numbers."""
    pool = learnt(channel, "inference.GRPCInferenceService")
    for name in (
        "ModelInferRequest",
        "ModelInferResponse",
        "ModelMetadataResponse",
        "RepositoryIndexResponse",
        "ModelConfigResponse",
    ):
        theirs = service_pb2.DESCRIPTOR.message_types_by_name[name]
        ours = pool.FindMessageTypeByName(f"inference.{name}")
        for field in ours.fields:
            assert theirs.fields_by_name[field.name].number == field.number, f"{name}.{field.name}"
            assert theirs.fields_by_name[field.name].type == field.type, f"{name}.{field.name}"
    for name in ("ModelConfig", "ModelInput", "ModelOutput"):
        theirs = model_config_pb2.DESCRIPTOR.message_types_by_name[name]
        for field in pool.FindMessageTypeByName(f"inference.{name}").fields:
            assert theirs.fields_by_name[field.name].number == field.number, f"{name}.{field.name}"
    kinds = pool.FindEnumTypeByName("inference.DataType").values_by_name
    assert {name: model_config_pb2.DataType.Value(name) for name in kinds} == {n: v.number for n, v in kinds.items()}


def test_what_is_not_on_the_port_is_not_shown(channel: grpc.Channel) -> None:
    control, nobody, nothing, broken = ask(
        channel,
        REFLECTION[0],
        [
            {"file_containing_symbol": "tidegate.v1.Control"},
            {"file_by_filename": "nobody.proto"},
            {"file_containing_symbol": "inference.GRPCInferenceService.Nothing"},
            {"all_extension_numbers_of_type": "x"},
        ],
    )
    assert [one.error_response.error_code for one in (control, nobody, nothing, broken)] == [5, 5, 5, 12]
