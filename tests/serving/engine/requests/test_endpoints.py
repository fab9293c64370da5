"""Both endpoints of a running engine: answers, routing, and a clear no for everything that cannot be answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support.clients import rest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    NotFound,
    TidegateError,
    Unavailable,
)
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import State
from tidegate_serving.contract.signature import Signature, TensorSpec

TABLE = Signature(
    inputs=(TensorSpec("carrier", "string"), TensorSpec("distance", "float64"), TensorSpec("row", "int32", (-1, 2))),
    outputs=(TensorSpec("score", "float64"), TensorSpec("name", "string")),
)
TABLE_MODEL = """
import numpy as np

class Model:
    def predict(self, inputs):
        score = inputs["distance"] + inputs["row"].sum(axis=1)
        return {"score": score, "name": np.array([b"<" + name + b">" for name in inputs["carrier"]], dtype=object)}
"""
COLUMN = Signature((TensorSpec("x", "float32", (-1, 1)),), (TensorSpec("y", "float32", (-1, 1)),))
EXAMPLE = {"carrier": "AA", "distance": 1.0, "row": [1, 2]}
X = np.array([1, 2, 5], dtype=np.float32)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("endpoints")
    versions = [publish(folder / "r", "adder", number, adding(number * 100)) for number in (1, 2, 3)]
    table = publish(folder / "r", "table", 7, Draft(files={"model.py": TABLE_MODEL}, signature=TABLE, example=EXAMPLE))
    column = publish(folder / "r", "column", 1, Draft(signature=COLUMN, example={"x": [1.0]}))
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True) as running:
        with running.control() as control:
            push_and_wait(control, *versions, labels={"stable": 1, "canary": 3})
            push_and_wait(control, table)
            push_and_wait(control, column)
        yield running


@pytest.fixture
def client(engine: EngineProcess) -> Iterator[Client]:
    with engine.client() as client:
        yield client


def test_answers_are_right_and_say_their_version(client: Client, engine: EngineProcess) -> None:
    prediction = client.predict("adder", {"x": X})
    assert prediction.outputs["y"].tolist() == (X + 100).tolist()
    assert (prediction.model, prediction.version) == ("adder", 1)
    reply = rest.predict(engine.addresses["rest"], "adder", [1, 2, 5])
    assert (reply.status, reply.json()) == (200, {"predictions": [101.0, 102.0, 105.0]})
    assert reply.headers["x-tidegate-version"] == "1"


@pytest.mark.parametrize(
    ("choice", "path", "added"),
    [
        ({}, "", 100),
        ({"version": 2}, "/versions/2", 200),
        ({"label": "canary"}, "/labels/canary", 300),
        ({"label": "stable"}, "/labels/stable", 100),
    ],
)
def test_versions_and_labels_are_routed(
    client: Client, engine: EngineProcess, choice: dict[str, Any], path: str, added: int
) -> None:
    assert client.predict("adder", {"x": X}, **choice).outputs["y"].tolist() == (X + added).tolist()
    reply = rest.predict(engine.addresses["rest"], "adder", [1, 2, 5], path)
    assert reply.json() == {"predictions": (X + added).tolist()}
    assert reply.headers["x-tidegate-version"] == str(added // 100)


def test_columns_strings_and_matrices(client: Client, engine: EngineProcess) -> None:
    inputs: dict[str, Any] = {
        "carrier": ["UA", "é"],
        "distance": np.array([1.5, np.nan]),
        "row": np.array([[1, 2], [3, 4]], "i4"),
    }
    outputs = client.predict("table", inputs).outputs
    assert outputs["name"].tolist() == [b"<UA>", "<é>".encode()]
    np.testing.assert_array_equal(outputs["score"], [4.5, np.nan])
    rows = [{"carrier": "UA", "distance": 1.5, "row": [1, 2]}, {"carrier": "é", "distance": -1, "row": [3, 4]}]
    reply = rest.predict(engine.addresses["rest"], "table", rows)
    assert reply.json() == {"predictions": [{"score": 4.5, "name": "<UA>"}, {"score": 6.0, "name": "<é>"}]}


def test_one_element_per_row_is_answered_in_the_rank_it_was_sent_in(client: Client, engine: EngineProcess) -> None:
    assert client.predict("column", {"x": X}).outputs["y"].tolist() == [2.5, 3.0, 4.5]
    assert client.predict("column", {"x": X.reshape(3, 1)}).outputs["y"].tolist() == [[2.5], [3.0], [4.5]]
    with pytest.raises(InvalidInput, match=r"shape \[1,3\], but the signature expects \[-1,1\]"):
        client.predict("column", {"x": X.reshape(1, 3)})

    def post(**body: Any) -> Any:
        return rest.call(engine.addresses["rest"], "POST", "/v1/models/column:predict", body).json()

    assert post(instances=[1, 2, 5]) == {"predictions": [2.5, 3.0, 4.5]}
    assert post(instances=[[1], [2]]) == {"predictions": [[2.5], [3.0]]}
    assert post(inputs=[1, 2, 5]) == post(inputs={"x": [1, 2, 5]}) == {"outputs": [2.5, 3.0, 4.5]}
    assert client.signatures("column")["serving_default"] == COLUMN


def test_status_metadata_and_health(client: Client, engine: EngineProcess) -> None:
    states = client.model_status("adder")
    assert [(change.id.version, change.state) for change in states] == [(v, State.AVAILABLE) for v in (3, 2, 1)]
    assert client.signatures("table")["serving_default"] == Signature(
        tuple(sorted(TABLE.inputs, key=lambda spec: spec.name)),
        tuple(sorted(TABLE.outputs, key=lambda spec: spec.name)),
    )
    address = engine.addresses["rest"]
    status = rest.call(address, "GET", "/v1/models/adder/labels/canary").json()
    assert [entry["version"] for entry in status["model_version_status"]] == ["3"]
    assert rest.call(address, "GET", "/v2/health/live").status == 200
    assert rest.call(address, "GET", "/v2/health/ready").status == 200
    assert b"tidegate_batches_total" in rest.call(address, "GET", "/metrics").body


def bad_calls() -> dict[str, tuple[Callable[[Client], object], type[TidegateError], str]]:
    good = {"carrier": ["UA"], "distance": np.array([1.0]), "row": np.array([[1, 2]], "i4")}
    return {
        "model": (lambda client: client.predict("nobody", {"x": X}), NotFound, "nobody"),
        "version": (lambda client: client.predict("adder", {"x": X}, version=9), NotFound, "adder.*9"),
        "label": (lambda client: client.predict("adder", {"x": X}, label="gold"), InvalidInput, "gold"),
        "signature": (lambda client: client.predict("adder", {"x": X}, signature="s9"), FailedPrecondition, "s9"),
        "dtype": (lambda client: client.predict("adder", {"x": X.astype("f8")}), InvalidInput, "'x'"),
        "string": (lambda client: client.predict("adder", {"x": ["a"]}), InvalidInput, "'x'"),
        "rank": (lambda client: client.predict("adder", {"x": np.ones((2, 2), "f4")}), InvalidInput, "'x'"),
        "scalar": (lambda client: client.predict("adder", {"x": np.float32(1)}), InvalidInput, "'x'"),
        "width": (lambda c: c.predict("table", {**good, "row": np.ones((1, 3), "i4")}), InvalidInput, "'row'"),
        "rows": (lambda c: c.predict("table", {**good, "distance": np.ones(2)}), InvalidInput, "distance|rows"),
        "missing": (lambda c: c.predict("table", {"carrier": ["UA"]}), InvalidInput, "distance"),
        "unknown": (lambda client: client.predict("adder", {"x": X, "z": X}), InvalidInput, "z"),
        "status": (lambda client: client.model_status("nobody"), NotFound, "nobody"),
        "metadata": (lambda client: client.signatures("nobody"), NotFound, "nobody"),
    }


@pytest.mark.parametrize("name", list(bad_calls()))
def test_bad_calls_over_grpc(client: Client, name: str) -> None:
    call, kind, match = bad_calls()[name]
    with pytest.raises(kind, match=match):
        call(client)
    assert client.predict("adder", {"x": X}).version == 1, "and it goes on"


@pytest.mark.parametrize(
    ("path", "body", "status", "match"),
    [
        ("/v1/models/nobody:predict", {"instances": [1]}, 404, "nobody"),
        ("/v1/models/adder/versions/9:predict", {"instances": [1]}, 404, "9"),
        ("/v1/models/adder/labels/gold:predict", {"instances": [1]}, 400, "gold"),
        ("/v1/models/adder:predict", {"instances": ["a"]}, 400, "x"),
        ("/v1/models/adder:predict", {"instances": [[1, 2]]}, 400, ""),
        ("/v1/models/adder:predict", {"instances": []}, 400, "instances"),
        ("/v1/models/adder:predict", {}, 400, "instances"),
        ("/v1/models/adder:predict", b"{", 400, ""),
        ("/v1/models/adder:predict", b"", 400, ""),
        ("/v1/models/adder:predict", b"\xff\xfe", 400, ""),
        ("/v1/models/table:predict", {"instances": [{"carrier": "UA"}]}, 400, "distance|row"),
        ("/v1/models/adder:explain", {"instances": [1]}, 400, "explain"),
        ("/nowhere", {}, 404, ""),
    ],
)
def test_bad_calls_over_rest(engine: EngineProcess, path: str, body: Any, status: int, match: str) -> None:
    reply = rest.call(engine.addresses["rest"], "POST", path, body)
    assert (reply.status, set(reply.json())) == (status, {"error"})
    assert any(part in reply.json()["error"] for part in match.split("|"))
    assert rest.predict(engine.addresses["rest"], "adder", [1]).status == 200


def raw_call(channel: grpc.Channel, method: str) -> Any:
    """A call that sends and receives bytes as they are."""
    return channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)


def test_malformed_protobuf_is_refused(engine: EngineProcess, client: Client) -> None:
    with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        call = raw_call(channel, "/tensorflow.serving.PredictionService/Predict")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\x0a\xff\xff\xff", timeout=60)
    assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)
    assert client.predict("adder", {"x": X}).version == 1


def test_a_path_outside_the_roots_is_not_served_on_request(engine: EngineProcess, client: Client) -> None:
    request = message("tensorflow.serving.ReloadConfigRequest")()
    request.config.model_config_list.config.add(name="m", base_path="/etc", model_platform="tensorflow")
    with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        call = raw_call(channel, "/tensorflow.serving.ModelService/HandleReloadConfigRequest")
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=60)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "base path /etc of model 'm' lies outside the engine's roots" in str(caught.value.details())
    assert client.predict("adder", {"x": X}).version == 1


def test_nobody_at_the_address_is_said() -> None:
    with Client("127.0.0.1:1") as client, pytest.raises(Unavailable, match=r"no engine answers at 127\.0\.0\.1:1"):
        client.predict("m", {"x": X}, timeout=5)


def test_python_is_entered_once_per_batch(engine: EngineProcess, client: Client) -> None:
    for _ in range(5):
        client.predict("adder", {"x": X})
    text = rest.call(engine.addresses["rest"], "GET", "/metrics").body.decode()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    batches = float(samples['tidegate_batches_total{model="adder",version="1"}'])
    assert batches >= 5
    assert float(samples['tidegate_python_entries_total{model="adder",version="1"}']) == batches


def test_the_ready_file_is_json_with_its_format(engine: EngineProcess) -> None:
    document = json.loads(engine.ready_file.read_text())
    assert document["format"] == "tidegate.ready/1"
    assert set(document) == {"format", "grpc", "rest", "control", "pid"}
