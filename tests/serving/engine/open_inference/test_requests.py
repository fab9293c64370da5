"""Which version and signature a request of the Open Inference Protocol means, and what is said of one that is wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients.open_inference import ask, values, x
from tests.support.clients.triton import tensor
from tests.support.engine.process import EngineProcess
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException


def test_versions_labels_and_the_identity_of_a_request(engine: EngineProcess, http_client: Any) -> None:
    for path, wanted in (("m", 101.0), ("m/versions/2", 202.0 - 1), ("m/labels/canary", 201.0)):
        status, headers, body = ask(engine, f"/v2/models/{path}/infer", {"id": "abc", "inputs": [x([1.0])]})
        answer = json.loads(body)
        assert (status, answer["outputs"][0]["data"]) == (200, [wanted])
        assert headers["x-request-id"] == answer["id"] == "abc"
        assert headers["x-tidegate-version"] == answer["model_version"]
    _, headers, body = ask(engine, "/v2/models/m/infer", {"id": "abc", "inputs": [x([1.0])]}, x_request_id="other")
    assert (headers["x-request-id"], json.loads(body)["id"]) == ("other", "abc")


def test_a_version_that_is_no_number_is_a_label(grpc_client: Any, http_client: Any) -> None:
    for client, library in ((grpc_client, over_grpc), (http_client, over_http)):
        one = tensor(library, "x", np.ones(1, np.float32))
        for version, wanted in (("1", 101.0), ("canary", 201.0), ("stable", 101.0)):
            assert client.infer("m", [one], model_version=version).as_numpy("y").tolist() == [wanted]
            assert client.is_model_ready("m", version)
            assert client.get_model_metadata("m", version)
        with pytest.raises(InferenceServerException, match="Unrecognized servable version label: nobody"):
            client.infer("m", [one], model_version="nobody")


def test_a_signature_is_named_by_a_parameter_and_one_alone_needs_no_name(engine: EngineProcess) -> None:
    pair = [{**x([2.0]), "name": name} for name in ("a", "b")]
    for parameters in ({}, {"signature_name": "pair"}):
        _, _, body = ask(engine, "/v2/models/pair/infer", {"inputs": pair, "parameters": parameters})
        outputs = {one["name"]: one["data"] for one in json.loads(body)["outputs"]}
        assert outputs == {"sum": [4.0], "product": [4.0]}
    wanted = {"inputs": pair, "outputs": [{"name": "product"}]}
    _, _, body = ask(engine, "/v2/models/pair/infer", wanted)
    assert [one["name"] for one in json.loads(body)["outputs"]] == ["product"]


BAD = {
    "no inputs": ({"id": "x"}, "the request has no 'inputs': send a list of tensors"),
    "inputs no list": ({"inputs": {}}, "'inputs' is {}: send a list"),
    "an unknown input": ({"inputs": [{**x([1.0]), "name": "z"}]}, "the model has no input 'z': it has 'x'"),
    "an input twice": ({"inputs": [x([1.0]), x([1.0])]}, "input 'x' is given twice"),
    "another type": (
        {"inputs": [x([1.0], datatype="FP64")]},
        "input 'x' has datatype FP64, but the model expects FP32: send it as FP32",
    ),
    "no type": (
        {"inputs": [x([1.0], datatype="FLOAT")]},
        "input 'x' has datatype 'FLOAT': send FP32 (the protocol has",
    ),
    "another shape": ({"inputs": [x([1.0] * 2, [1, 2])]}, "input 'x' has shape [1,2], but the model expects [-1]"),
    "a negative size": (
        {"inputs": [x([1.0], [-1])]},
        "input 'x' has a dimension of size -1: send the shape of the data",
    ),
    "too few": ({"inputs": [x([1.0], [2])]}, "the data of input 'x' has 1 values, not 2: its shape is [2]"),
    "too many": (
        {"inputs": [x([1.0, 2.0], [1])]},
        "the data of input 'x' has 2 or more values, not 1: its shape is [1]",
    ),
    "a text": ({"inputs": [x(["a"])]}, "input 'x' has \"a\" in its data, which is no FP32"),
    "no data": ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]}, "input 'x' has no data"),
    "an unknown output": (
        {"inputs": [x([1.0])], "outputs": [{"name": "z"}]},
        "the model has no output 'z': it has 'y'",
    ),
    "an output twice": (
        {"inputs": [x([1.0])], "outputs": [{"name": "y"}, {"name": "y"}]},
        "output 'y' is asked for twice",
    ),
    "more than fits": (
        {"inputs": [x([], [1 << 40])]},
        "input 'x' of shape [1099511627776] would take more than the limit",
    ),
    "another signature": (
        {"inputs": [x([1.0])], "parameters": {"signature_name": "other"}},
        "the model has no signature 'other': name one of serving_default as parameter signature_name",
    ),
    "a wrong parameter": (
        {"inputs": [x([1.0])], "parameters": {"signature_name": 7}},
        "parameter 'signature_name' must be a string",
    ),
    "a list for a parameter": (
        {"inputs": [x([1.0])], "parameters": {"explain": [1]}},
        "parameter 'explain' is [1]: send a string, a number, true or false",
    ),
    "bytes that never came": (
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}]},
        "input 'x' has binary_data_size 4, but 0 bytes are left of the body",
    ),
}


@pytest.mark.parametrize(("body", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said(engine: EngineProcess, body: Any, words: str) -> None:
    status, headers, answer = ask(engine, "/v2/models/m/infer", body)
    assert status in (400, 429)
    assert words in json.loads(answer)["error"]
    assert headers["x-request-id"]


def test_a_body_without_json_is_the_only_input(engine: EngineProcess) -> None:
    body = np.array([1, 2], "<f4").tobytes()
    bare = {"Inference_Header_Content_Length": "0", "Content_Type": "application/octet-stream"}
    status, headers, answer = ask(engine, "/v2/models/m/infer", body, **bare)
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    values = answer[int(headers["inference-header-content-length"]) :]
    assert np.frombuffer(values, "<f4").tolist() == [101.0, 102.0]
    status, _, answer = ask(engine, "/v2/models/pair/infer", body, **bare)
    assert (status, b"but this one has 'a', 'b': send JSON" in answer) == (400, True)


def test_what_is_elsewhere_is_not_left_out(engine: EngineProcess) -> None:
    shared = x([], [1], parameters={"shared_memory_region": "r", "shared_memory_byte_size": 4})
    status, _, answer = ask(engine, "/v2/models/m/infer", {"inputs": [shared]})
    assert (status, b"have the engine's operator set shared_memory" in answer) == (501, True)


def test_what_is_wrong_over_grpc_is_said(grpc_client: Any) -> None:
    one = tensor(over_grpc, "x", np.ones(2, np.float32))
    cases = {
        "nobody": ("", [one], "NOT_FOUND.*Servable not found for request: Latest"),
        "m": ("3", [one], "NOT_FOUND.*Specific\\(m, 3\\)"),
        "pair": ("", [one], "INVALID_ARGUMENT.*the model has no input 'x': it has 'a', 'b'"),
        "kinds": ("", [tensor(over_grpc, "in_bool", values("bool"))], "INVALID_ARGUMENT.*lacks input 'in_int8'"),
    }
    for model, (version, inputs, words) in cases.items():
        with pytest.raises(InferenceServerException, match=words):
            grpc_client.infer(model, inputs, model_version=version)
    request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[b"1234", b"5678"])
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    with pytest.raises(over_grpc.grpc.RpcError, match="raw_input_contents has 2 entries for 1 inputs"):
        grpc_client._client_stub.ModelInfer(request)
    request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[b"12345"])
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    with pytest.raises(over_grpc.grpc.RpcError, match=r"input 'x' has 5 bytes, but shape \[1\] of FP32 needs 4"):
        grpc_client._client_stub.ModelInfer(request)
