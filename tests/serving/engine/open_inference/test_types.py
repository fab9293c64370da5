"""Every type and form of tensors that Triton's clients and plain HTTP send and get back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients.open_inference import FIELDS, KINDS, ask, values, x
from tests.support.clients.triton import tensor
from tests.support.engine.process import EngineProcess
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype


def test_every_type_comes_back_as_it_was_sent_over_grpc(grpc_client: Any) -> None:
    sent = {kind: values(kind) for kind in KINDS}
    inputs = [tensor(over_grpc, f"in_{kind}", array) for kind, array in sent.items()]
    answer = grpc_client.infer("kinds", inputs, request_id="mine")
    assert (answer.get_response().id, answer.get_response().model_version) == ("mine", "1")
    for kind, array in sent.items():
        found = answer.as_numpy(f"out_{kind}")
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("binary", [True, False])
def test_every_type_comes_back_as_it_was_sent_over_http(http_client: Any, binary: bool) -> None:
    # JSON has no infinity and no half floats in Triton's client, and texts there are no other bytes.
    kinds = KINDS if binary else tuple(kind for kind in KINDS if kind != "float16")
    sent = {kind: values(kind) if binary else values(kind, rows=2) for kind in KINDS}
    if not binary:
        sent["string"] = np.array([[b"a", "größe".encode()], [b"", b'"quoted"\n']], dtype=object)
        sent["float64"] = np.array([[0.1, -1e300], [5e-324, 3.0]])
        sent["float32"] = np.array([[0.1, -1e30], [1e-45, 3.0]], np.float32)
    inputs = [
        tensor(over_http, f"in_{kind}", array, binary_data=binary or kind == "float16") for kind, array in sent.items()
    ]
    outputs = [over_http.InferRequestedOutput(f"out_{kind}", binary_data=binary) for kind in kinds]
    answer = http_client.infer("kinds", inputs, outputs=outputs, request_id="mine")
    assert answer.get_response()["id"] == "mine"
    assert [output["name"] for output in answer.get_response()["outputs"]] == [f"out_{kind}" for kind in kinds]
    for kind in kinds:
        found = answer.as_numpy(f"out_{kind}")
        wanted = sent[kind] if binary or kind != "string" else np.vectorize(bytes.decode)(sent[kind]).astype(object)
        np.testing.assert_array_equal(found, wanted)


def test_typed_contents_are_answered_by_typed_contents(grpc_client: Any) -> None:
    request = service_pb2.ModelInferRequest(model_name="typed", id="typed")
    for kind, field in FIELDS.items():
        array = values(kind)
        one = request.inputs.add(name=f"in_{kind}", shape=array.shape, datatype=np_to_triton_dtype(array.dtype))
        getattr(one.contents, f"{field}_contents").extend(array.ravel().tolist())
    answer = grpc_client._client_stub.ModelInfer(request)
    assert (answer.model_name, answer.model_version, answer.id) == ("typed", "1", "typed")
    assert len(answer.raw_output_contents) == 0
    for output, (kind, field) in zip(answer.outputs, FIELDS.items(), strict=True):
        assert (output.name, list(output.shape)) == (f"out_{kind}", [3, 2])
        assert list(getattr(output.contents, f"{field}_contents")) == values(kind).ravel().tolist()


def test_half_floats_have_no_typed_contents(grpc_client: Any) -> None:
    request = service_pb2.ModelInferRequest(model_name="kinds")
    for kind in KINDS:
        array = values(kind)
        one = request.inputs.add(name=f"in_{kind}", shape=array.shape, datatype=np_to_triton_dtype(array.dtype))
        getattr(one.contents, f"{FIELDS.get(kind, 'fp32')}_contents").extend(array.ravel().tolist())
    with pytest.raises(over_grpc.grpc.RpcError, match="contents have no field for FP16: send it in raw_input_contents"):
        grpc_client._client_stub.ModelInfer(request)


def test_values_in_another_types_contents_are_refused(grpc_client: Any) -> None:
    request = service_pb2.ModelInferRequest(model_name="m", model_version="canary")
    request.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp64_contents.append(1.0)
    with pytest.raises(
        over_grpc.grpc.RpcError, match="values in field 7 of its contents: FP32 belongs in fp32_contents"
    ):
        grpc_client._client_stub.ModelInfer(request)


def test_nested_data_and_keys_in_any_order(engine: EngineProcess) -> None:
    backwards = {"data": [[1, 2], [3, 4], [5, 6]], "shape": [3, 2], "datatype": "INT32", "name": "in_int32"}
    status, _, body = ask(engine, "/v2/models/kinds/infer", {"inputs": [backwards]})
    assert (status, b"lacks input 'in_bool', 'in_int8'" in body) == (400, True)
    rows = {"data": [1.0, 2.0], "datatype": "FP32", "shape": [2], "name": "x"}
    assert json.loads(ask(engine, "/v2/models/m/infer", {"inputs": [rows]})[2])["outputs"][0]["data"] == [101.0, 102.0]


def test_a_column_is_a_list_of_its_values(engine: EngineProcess, grpc_client: Any, http_client: Any) -> None:
    """MLServer's codecs send every list so."""
    for data in ([1.0, 2.0], [[1.0], [2.0]]):
        status, _, body = ask(engine, "/v2/models/m/infer", {"inputs": [x(data, [2, 1])]})
        assert (status, json.loads(body)["outputs"][0]["shape"]) == (200, [2])
    column = np.array([[1], [2]], np.float32)
    for client, library in ((grpc_client, over_grpc), (http_client, over_http)):
        assert client.infer("m", [tensor(library, "x", column)]).as_numpy("y").tolist() == [101.0, 102.0]


def test_binary_outputs_follow_the_json(engine: EngineProcess) -> None:
    body = {"inputs": [x([1.0, 2.0])], "parameters": {"binary_data_output": True}}
    status, headers, answer = ask(engine, "/v2/models/m/infer", body)
    length = int(headers["inference-header-content-length"])
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    assert json.loads(answer[:length])["outputs"] == [
        {"name": "y", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}
    ]
    assert np.frombuffer(answer[length:], np.float32).tolist() == [101.0, 102.0]
    status, _, answer = ask(engine, "/v2/models/raw/infer", {"inputs": [x([1.0])]})
    assert (status, json.loads(answer)["error"]) == (
        400,
        "output 'y' has bytes that are no UTF-8, which JSON cannot carry: ask for it with parameter 'binary_data'",
    )
