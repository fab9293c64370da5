"""The trace that a request belongs to is in its row of the inference log, whatever it was asked by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as over_grpc
from tests.support.clients.rest import call
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate import Engine
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.inference_log.reader import connect
from tidegate_serving.tensor_proto import fill

MODEL = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"]}

    def count(self, inputs):
        for i in range(int(inputs["n"])):
            yield {"i": i}
"""
ONCE = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))
STREAM = Signature(
    (TensorSpec("n", "int64", ()),), (TensorSpec("i", "int64", ()),), first_axis=FirstAxis.FREE, streaming=True
)
DRAFT = Draft(
    files={"model.py": MODEL},
    signatures={SERVING_DEFAULT: ONCE, "count": STREAM},
    metadata={"python.methods": f'{{"{SERVING_DEFAULT}": "predict", "count": "count"}}'},
)
CALLER = "00f067aa0ba902b7"
X = np.array([1.0, 2.0], np.float32)


def trace(number: int) -> str:
    return f"{number:032x}"


def parent(number: int) -> str:
    return f"00-{trace(number)}-{CALLER}-01"


def traces(log: Path) -> dict[str, set[str | None]]:
    """What the log has of each request."""
    with connect(log) as connection:
        found = connection.execute("SELECT request_id, list(DISTINCT coalesce(trace_id, '-')) FROM log GROUP BY ALL")
        return {request: set(ids) for request, ids in found.fetchall()}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("engine")
    log = {"log_path": folder / "log", "log_block_seconds": 0.05}
    version = publish(folder / "r", "m", 1, DRAFT)
    with EngineProcess(folder / "e", roots=[folder / "r"], allow_unverified=True, **log) as running:
        with running.control() as control:
            push_and_wait(control, version)
        yield running


def over_rest(engine: EngineProcess) -> None:
    asked: list[tuple[str, dict[str, Any], dict[str, str]]] = [
        ("/v1/models/m:predict", {"instances": [1.0]}, {}),
        ("/v2/models/m/infer", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}, {}),
        ("/inference/m", {"x": 1.0}, {}),
        ("/v1/models/m:predict", {"signature_name": "count", "inputs": {"n": 2}}, {"accept": "text/event-stream"}),
    ]
    for number, (path, body, headers) in enumerate(asked, 1):
        answer = call(
            engine.addresses["rest"],
            "POST",
            path,
            body,
            x_request_id=f"rest-{number}",
            traceparent=parent(number),
            **headers,
        )
        assert answer.status == 200, answer.body


def predict_over_grpc(engine: EngineProcess) -> None:
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = "m"
    fill(request.inputs["x"], X)
    with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/tensorflow.serving.PredictionService/Predict"
        )
        method(request.SerializeToString(), metadata=(("traceparent", parent(5)), ("x-request-id", "grpc-5")))


def infer_over_grpc(engine: EngineProcess) -> None:
    given = over_grpc.InferInput("x", [2], "FP32")
    given.set_data_from_numpy(X)
    with over_grpc.InferenceServerClient(engine.addresses["grpc"]) as client:
        client.infer("m", [given], request_id="grpc-6", headers={"traceparent": parent(6)})
        came: Queue[Any] = Queue()
        client.start_stream(lambda result, error: came.put((result, error)), headers={"traceparent": parent(7)})
        client.async_stream_infer("m", [given], request_id="grpc-7")
        assert came.get(timeout=20)[1] is None
        client.stop_stream()


def test_every_protocol_has_the_trace_of_its_request_in_the_log(engine: EngineProcess) -> None:
    over_rest(engine)
    predict_over_grpc(engine)
    infer_over_grpc(engine)
    plain = {"x_request_id": "none"}
    assert call(engine.addresses["rest"], "POST", "/v1/models/m:predict", {"instances": [1.0]}, **plain).status == 200
    broken = {"x_request_id": "broken", "traceparent": parent(8).upper().replace("0", "g")}
    assert call(engine.addresses["rest"], "POST", "/v1/models/m:predict", {"instances": [1.0]}, **broken).status == 200
    log = engine.folder.parent / "log"
    eventually(lambda: len(list(log.rglob("*.parquet"))) > 0 and len(traces(log)) == 9)
    expected = {f"rest-{number}": {trace(number)} for number in range(1, 5)}
    expected |= {f"grpc-{number}": {trace(number)} for number in range(5, 8)}
    assert traces(log) == expected | {"none": {"-"}, "broken": {"-"}}


def test_a_trace_that_begins_in_the_engine_is_the_one_of_the_answer(tmp_path: Path) -> None:
    log, access = tmp_path / "log", tmp_path / "access.jsonl"
    settings = {"log_path": log, "log_block_seconds": 0.05, "access_log_path": access}
    version = publish(tmp_path / "r", "m", 1, DRAFT)
    with EngineProcess(tmp_path / "e", roots=[tmp_path / "r"], allow_unverified=True, **settings) as running:
        with running.control() as control:
            push_and_wait(control, version)
        body = {"instances": [1.0, 2.0]}
        answer = call(running.addresses["rest"], "POST", "/v1/models/m:predict", body, x_request_id="own")
    began = answer.headers["traceparent"].split("-")[1]
    assert traces(log) == {"own": {began}}, "both rows have it"


def test_a_program_says_its_trace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Engine(log=log) as engine:
        engine.serve("m", lambda x: {"y": x}, inputs={"x": ("float32", (-1,))}, outputs={"y": ("float32", (-1,))})
        engine.predict("m", {"x": X}, request_id="a", traceparent=parent(1))
        engine.predict("m", {"x": X}, request_id="b")
    assert traces(log) == {"a": {trace(1)}, "b": {"-"}}
