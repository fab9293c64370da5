"""A router in front of two engines, asked by real clients: it answers as an engine, and goes on when one is killed."""

from __future__ import annotations

import gzip
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients import official_client
from tests.support.clients.rest import call
from tests.support.clients.triton import TritonStream, tensor
from tests.support.engine.process import ANY, EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish
from tidegate_native import Router, Settings

from tidegate_serving.contract.messages import message
from tidegate_serving.tensor_proto import fill

PREDICTION = "/tensorflow.serving.PredictionService"
INFERENCE = "/inference.GRPCInferenceService"
CALLERS = 8
INFER = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}


def engine_of(folder: Path) -> EngineProcess:
    root = folder / "repository"
    publish(root, "m", 1, adding(100))
    return EngineProcess(folder / "engine", repository=root, allow_unverified=True)


def apply(router: Router, engines: dict[str, EngineProcess], models: dict[str, list[str]]) -> None:
    addresses = {name: (engine.addresses["grpc"], engine.addresses["rest"]) for name, engine in engines.items()}
    router.apply(addresses, models)


@pytest.fixture
def router() -> Iterator[Router]:
    running = Router.start(Settings(grpc_address=ANY, rest_address=ANY), wanted=lambda model: None)
    yield running
    running.stop(5)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EngineProcess]]:
    folder = tmp_path_factory.mktemp("nodes")
    with engine_of(folder / "a") as a, engine_of(folder / "b") as b:
        yield {"a": a, "b": b}


def predict_request(model: str = "m", version: int | None = None, values: Any = (1.0, 2.0)) -> bytes:
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = model
    if version is not None:
        request.model_spec.version.value = version
    fill(request.inputs["x"], np.asarray(values, dtype=np.float32))
    return bytes(request.SerializeToString())


def named(kind: str, field: str = "name", name: str = "m") -> bytes:
    return bytes(message(f"inference.{kind}")(**{field: name}).SerializeToString())


def of_model(kind: str, **fields: Any) -> bytes:
    return bytes(message(f"tensorflow.serving.{kind}")(model_spec={"name": "m"}, **fields).SerializeToString())


REST_CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/v1/models/m:predict", {"instances": [1, 2, 3]}),
    ("POST", "/v1/models/m:predict", {"inputs": {"x": [1, 2]}}),
    ("POST", "/v1/models/m/versions/1:predict", {"instances": [1]}),
    ("POST", "/v1/models/m/versions/9:predict", {"instances": [1]}),
    ("POST", "/v1/models/m/labels/none:predict", {"instances": [1]}),
    ("POST", "/v1/models/m/versions/x:predict", {"instances": [1]}),
    ("POST", "/v1/models/m:predict", b"{"),
    ("POST", "/v1/models/m:predict", b""),
    ("POST", "/v1/models/m:predict", {"instances": ["text"]}),
    ("GET", "/v1/models/m:predict", None),
    ("GET", "/v1/models/m", None),
    ("HEAD", "/v1/models/m", None),
    ("GET", "/v1/models/m/metadata", None),
    ("POST", "/v1/models/n:predict", {"instances": [1]}),
    ("POST", "/v2/models/m/infer", INFER),
    ("POST", "/v2/models/m/infer", {"inputs": []}),
    ("POST", "/v2/models/n/infer", INFER),
    ("GET", "/v2/models/m", None),
    ("GET", "/v2/models/m/config", None),
    ("GET", "/v2/models/m/ready", None),
    ("GET", "/v2", None),
    ("GET", "/v2/health/live", None),
    ("POST", "/inference/m", {"x": 1}),
    ("GET", "/nowhere", None),
]
GRPC_CALLS: list[tuple[str, bytes]] = [
    (f"{PREDICTION}/Predict", predict_request()),
    (f"{PREDICTION}/Predict", predict_request(version=9)),
    (f"{PREDICTION}/Predict", predict_request("n")),
    (f"{PREDICTION}/Predict", predict_request(values=[[1.0], [2.0]])),
    (f"{PREDICTION}/Predict", predict_request(values=np.arange(200_000))),
    (f"{PREDICTION}/Predict", b"\xff"),
    (f"{PREDICTION}/Predict", b""),
    (f"{PREDICTION}/GetModelMetadata", of_model("GetModelMetadataRequest", metadata_field=["signature_def"])),
    ("/tensorflow.serving.ModelService/GetModelStatus", of_model("GetModelStatusRequest")),
    (f"{INFERENCE}/ModelReady", named("ModelReadyRequest")),
    (f"{INFERENCE}/ModelMetadata", named("ModelMetadataRequest")),
    (f"{INFERENCE}/ModelMetadata", named("ModelMetadataRequest", name="n")),
    (f"{INFERENCE}/ModelConfig", named("ModelConfigRequest")),
    (f"{INFERENCE}/ServerMetadata", b""),
    ("/grpc.health.v1.Health/Check", b""),
    ("/x.Y/Z", b""),
]


def over_rest(address: str, method: str, path: str, body: Any) -> tuple[int, bytes, str | None, str | None]:
    reply = call(address, method, path, body)
    return reply.status, reply.body, reply.headers.get("content-type"), reply.headers.get("x-tidegate-version")


def over_raw_grpc(address: str, path: str, request: bytes) -> tuple[str, str | None, bytes, Any]:
    with grpc.insecure_channel(address) as channel:
        asked: Any = channel.unary_unary(path)
        try:
            answer, told = asked.with_call(request, timeout=60)
        except grpc.RpcError as error:
            return error.code().name, error.details(), b"", None
        return "OK", None, answer, dict(told.initial_metadata()).get("x-tidegate-version")


def test_every_answer_is_that_of_an_engine_asked_directly(router: Router, engines: dict[str, EngineProcess]) -> None:
    apply(router, engines, {"m": ["a", "b"]})
    direct = engines["a"].addresses
    assert router.rest_address
    assert router.grpc_address
    for method, path, body in REST_CALLS:
        assert over_rest(router.rest_address, method, path, body) == over_rest(direct["rest"], method, path, body), path
    for path, request in GRPC_CALLS:
        answer = over_raw_grpc(router.grpc_address, path, request)
        assert answer == over_raw_grpc(direct["grpc"], path, request), path
    packed = gzip.compress(json.dumps({"instances": [1, 2]}).encode())
    reply = call(router.rest_address, "POST", "/v1/models/m:predict", packed, content_encoding="gzip")
    assert reply.json() == {"predictions": [101.0, 102.0]}
    mine, other = (official_client.run("predicting", address) for address in (router.grpc_address, direct["grpc"]))
    assert mine == other


def test_tritons_clients_see_an_engine(router: Router, engines: dict[str, EngineProcess]) -> None:
    apply(router, engines, {"m": ["a", "b"]})
    values = np.asarray([1, 2, 3], np.float32)
    for library, address in ((over_grpc, router.grpc_address), (over_http, router.rest_address)):
        with library.InferenceServerClient(address) as client:
            assert client.is_server_ready()
            assert client.is_model_ready("m")
            result = client.infer("m", [tensor(library, "x", values)])
            np.testing.assert_array_equal(result.as_numpy("y"), values + 100)
    assert router.grpc_address
    stream = TritonStream(router.grpc_address)
    for count in range(1, 4):
        stream.ask("m", {"x": values[:count]})
        np.testing.assert_array_equal(stream.next().as_numpy("y"), values[:count] + 100)
    stream.close()


def test_a_model_that_is_on_no_node_is_wanted_and_waited_for(engines: dict[str, EngineProcess]) -> None:
    told: list[tuple[str, str]] = []
    settings = Settings(grpc_address=ANY, rest_address=ANY)

    def wanted(model: str) -> None:
        told.append((model, threading.current_thread().name))
        apply(cold, engines, {"m": ["b"]})

    cold = Router.start(settings, wanted=wanted)
    apply(cold, engines, {"m": []})
    assert cold.rest_address
    reply = call(cold.rest_address, "POST", "/v1/models/m:predict", {"instances": [1]})
    assert reply.json() == {"predictions": [101.0]}
    assert [model for model, _ in told] == ["m"]
    requests, errors, retried, hedged, last = cold.stats()["m"]
    assert (requests, errors, retried, hedged) == (1, 0, 0, 0)
    assert last > 1e9
    with pytest.raises(ValueError, match="model 'm' is on node 'c'"):
        apply(cold, engines, {"m": ["c"]})
    assert cold.stop(5)
    with pytest.raises(ValueError, match="stopped"):
        cold.apply({}, {})


def test_a_killed_engine_fails_no_request(router: Router, tmp_path: Path) -> None:
    with engine_of(tmp_path / "a") as a, engine_of(tmp_path / "b") as b:
        apply(router, {"a": a, "b": b}, {"m": ["a", "b"]})
        rest, address = router.rest_address, router.grpc_address
        assert rest
        assert address
        answers: list[Any] = []
        over = threading.Event()

        def over_and_over(ask: Callable[[float], Any]) -> None:
            number = 0.0
            while not over.is_set():
                number += 1
                answers.append((ask(number), number + 100))

        def by_rest(number: float) -> Any:
            reply = call(rest, "POST", "/v1/models/m:predict", {"instances": [number]})
            return reply.json()["predictions"][0] if reply.status == 200 else reply

        def by_grpc(number: float) -> Any:
            code, text, answer, _ = over_raw_grpc(address, f"{PREDICTION}/Predict", predict_request(values=[number]))
            if code != "OK":
                return code, text
            return message("tensorflow.serving.PredictResponse").FromString(answer).outputs["y"].float_val[0]

        threads = [
            threading.Thread(target=over_and_over, args=(ask,))
            for ask in (by_rest, by_grpc)
            for _ in range(CALLERS // 2)
        ]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: len(answers) > 200)
            assert a.process is not None
            os.kill(a.process.pid, signal.SIGKILL)
            a.process.wait(30)
            before = len(answers)
            eventually(lambda: len(answers) > before + 200)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        wrong = [answer for answer in answers if answer[0] != answer[1]]
        assert not wrong
        assert router.stats()["m"][2] > 0, "the killed engine was not asked any more"
