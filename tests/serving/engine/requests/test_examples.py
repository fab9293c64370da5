"""Classify, Regress and MultiInference of a running engine, by the official client and over REST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.clients import official_client, rest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.inference_log.reader import connect

COLUMNS = (TensorSpec("carrier", "string"), TensorSpec("distance", "float64"), TensorSpec("stops", "uint8"))
COLUMNS_MODEL = """
import numpy as np

class Model:
    def predict(self, inputs):
        late = inputs["distance"] / 10 + inputs["stops"] + (inputs["carrier"] == b"UA")
        return {"probabilities": np.stack([1 - late, late], axis=1)}

    def minutes(self, inputs):
        return {"minutes": self.predict(inputs)["probabilities"][:, 1]}
"""
PARSER_MODEL = """
import numpy as np
from tidegate_serving.contract.messages import message

Example = message("tensorflow.Example")

class Model:
    def _x(self, inputs):
        examples = [Example.FromString(serialized) for serialized in inputs["inputs"]]
        return np.array([[example.features.feature["x"].float_list.value[0]] for example in examples], "f4")

    def classify(self, inputs):
        x = self._x(inputs)
        return {"scores": np.hstack([-x, x]), "classes": np.array([[b"neg", b"pos"]] * len(x), dtype=object)}

    def regress(self, inputs):
        return {"outputs": self._x(inputs)}
"""
EXAMPLES = (TensorSpec("inputs", "string"),)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("examples")
    columns = Draft(
        files={"model.py": COLUMNS_MODEL},
        signatures={
            "serving_default": Signature(COLUMNS, (TensorSpec("probabilities", "float64", (-1, 2)),)),
            "late": Signature(COLUMNS, (TensorSpec("minutes", "float64"),)),
        },
        metadata={"python.methods": '{"late": "minutes"}'},
        example={"carrier": "UA", "distance": 1.0, "stops": 1},
    )
    scores = (TensorSpec("classes", "string", (-1, 2)), TensorSpec("scores", "float32", (-1, 2)))
    parser = Draft(
        files={"model.py": PARSER_MODEL},
        signatures={
            "serving_default": Signature(EXAMPLES, scores, "tensorflow/serving/classify"),
            "value": Signature(EXAMPLES, (TensorSpec("outputs", "float32", (-1, 1)),), "tensorflow/serving/regress"),
        },
        metadata={"python.methods": '{"serving_default": "classify", "value": "regress"}'},
        example={},
    )
    versions = [publish(folder / "r", "columns", 3, columns), publish(folder / "r", "parser", 5, parser)]
    settings: dict[str, Any] = {"log_path": folder / "log", "log_block_seconds": 0.1}
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True, **settings) as running:
        with running.control() as control:
            push_and_wait(control, versions[0])
            push_and_wait(control, versions[1])
        yield running


def test_the_official_client_infers(engine: EngineProcess) -> None:
    found = official_client.run("inferring", engine.addresses["grpc"])
    assert found["classified"] == {
        "result": [[["", -10.0], ["", 11.0]], [["", -6.0], ["", 7.0]]],
        "spec": ["columns", 3, "serving_default"],
    }
    assert found["regressed"] == {"result": [11.0, 7.0], "spec": ["columns", 3, "late"]}
    assert found["context"]["result"] == pytest.approx([2.1, 2.1])
    classified = [[["neg", -2.0], ["pos", 2.0]]]
    assert found["parsed"] == {"result": classified, "spec": ["parser", 5, "serving_default"]}
    assert found["parsed context"] == {"result": [3.0, 4.0], "spec": ["parser", 5, "value"]}
    assert found["both"] == [[["parser", 5, "serving_default"], classified], [["parser", 5, "value"], [2.0]]]


@pytest.mark.parametrize(
    ("case", "refusal"),
    [
        (
            "missing",
            "INVALID_ARGUMENT Name: <unknown>, Key: distance, Index: 1.  Feature: distance (data type: double) is "
            "required but could not be found.",
        ),
        (
            "kind",
            "INVALID_ARGUMENT Name: <unknown>, Key: distance, Index: 0.  Data types don't match. Data type: string but "
            "expected type: double",
        ),
        (
            "range",
            "INVALID_ARGUMENT Name: <unknown>, Key: stops, Index: 0.  Value 300 does not fit its dtype uint8.",
        ),
        ("empty", "INVALID_ARGUMENT Input is empty."),
        (
            "method",
            "INVALID_ARGUMENT Expected regression signature method_name to be tensorflow/serving/regress. Was: "
            "tensorflow/serving/classify",
        ),
        ("signature", "INVALID_ARGUMENT No signature was found with the name: gone"),
        ("model", "NOT_FOUND Servable not found for request: Latest(nobody)"),
        ("raised", "INTERNAL"),
        ("twice", "INVALID_ARGUMENT Duplicate evaluation of signature: serving_default"),
    ],
)
def test_refusals_are_those_of_tensorflow_serving(refusals: dict[str, Any], case: str, refusal: str) -> None:
    code, text = refusals[case]
    assert f"{code} {text}".startswith(refusal)


@pytest.fixture(scope="module")
def refusals(engine: EngineProcess) -> dict[str, Any]:
    found: dict[str, Any] = official_client.run("inferring", engine.addresses["grpc"])
    return found


def test_rest_answers_as_tensorflow_serving_does(engine: EngineProcess) -> None:
    address = engine.addresses["rest"]
    body: dict[str, Any] = {"examples": [{"x": 2.0}, {"x": [3.0]}]}
    reply = rest.call(address, "POST", "/v1/models/parser:classify", body)
    expected = {"results": [[["neg", -2.0], ["pos", 2.0]], [["neg", -3.0], ["pos", 3.0]]]}
    assert (reply.status, reply.json(), reply.headers["x-tidegate-version"]) == (200, expected, "5")
    body = {"signature_name": "late", "context": {"carrier": {"b64": "VUE="}, "stops": 1}}
    body["examples"] = [{"distance": 10}, {"distance": 20.0, "stops": True, "carrier": "AA"}]
    reply = rest.call(address, "POST", "/v1/models/columns/versions/3:regress", body)
    assert (reply.status, reply.json()) == (200, {"results": [3.0, 3.0]})
    reply = rest.call(address, "POST", "/v1/models/columns:regress", {"examples": []})
    text = "JSON Value: {\"examples\": []} 'examples' value is an empty array"
    assert (reply.status, reply.json()) == (400, {"error": text})


def test_what_was_parsed_is_logged(engine: EngineProcess) -> None:
    address, log = engine.addresses["rest"], engine.folder.parent / "log"
    features = {"carrier": "ZZ", "distance": 77.5, "stops": 9}
    sent = rest.call(address, "POST", "/v1/models/columns:classify", {"examples": [features]}, x_request_id="one-of-me")
    assert sent.status == 200
    sent = rest.call(
        address,
        "POST",
        "/v1/models/parser:regress",
        {"examples": [{"x": 8.5}], "signature_name": "value"},
        x_request_id="whole",
    )
    assert sent.status == 200

    def logged(columns: str, request: str) -> list[tuple[Any, ...]]:
        with connect(log) as database:
            rows: list[tuple[Any, ...]] = database.execute(
                f"SELECT {columns} FROM log WHERE request_id = ?", [request]
            ).fetchall()
            return rows

    eventually(lambda: len(logged("request_id", "whole")) == 1)
    names = '"in.carrier", "in.distance", "in.stops", "out.probabilities"'
    (carrier, distance, stops, probabilities) = logged(names, "one-of-me")[0]
    assert (carrier, distance, stops) in [("ZZ", 77.5, 9), (b"ZZ", 77.5, 9)]
    assert list(probabilities) == pytest.approx([-15.75, 16.75])
