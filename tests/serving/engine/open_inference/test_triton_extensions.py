"""Triton's extensions through its own clients: classification, timeouts, and those that are refused with a cure."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as over_grpc
from tests.support.clients.triton import tensor
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.gate import AT_PREDICT, Gate
from tests.support.models.versions import Draft, adding, publish
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec

KINDS = ("int8", "int64", "uint16", "uint64", "float16", "float32", "float64")
ECHO = """
class Model:
    def predict(self, inputs):
        return {f"out_{name}": value for name, value in inputs.items()}
"""
WHOLE = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"]}
"""
ONE = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    return Gate.make(tmp_path_factory.mktemp("gate") / "pipe")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, gate: Gate) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("extensions")
    inputs = tuple(TensorSpec(kind, kind, (-1, 5)) for kind in (*KINDS, "string", "bool"))
    outputs = tuple(TensorSpec(f"out_{one.name}", one.dtype, one.shape) for one in inputs)
    example = {one.name: ["a"] * 5 if one.name == "string" else [0] * 5 for one in inputs}
    kinds = Draft(files={"model.py": ECHO}, signature=Signature(inputs, outputs), example=example)
    free = Signature(
        (TensorSpec("x", "float32", (2, -1)),), (TensorSpec("y", "float32", (2, -1)),), first_axis=FirstAxis.FREE
    )
    whole = Draft(files={"model.py": WHOLE}, signature=free, example={"x": [[1.0], [2.0]]})
    waits = Draft(files={"model.py": gate.source(AT_PREDICT, 1)}, signature=ONE)
    drafts = {"kinds": kinds, "whole": whole, "waits": waits, "one_more": adding(1)}
    directories = [publish(folder / "r", name, 1, draft) for name, draft in drafts.items()]
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True, isolation="engine") as running:
        with running.control() as control:
            for directory in directories:
                push_and_wait(control, directory)
        yield running


def values() -> dict[str, np.ndarray[Any, Any]]:
    """Two rows of five of each type; the second has equal ones."""
    made: dict[str, np.ndarray[Any, Any]] = {
        kind: np.array([[3, 1, 9, 7, 5], [2, 2, 8, 8, 0]]).astype(kind) for kind in KINDS
    }
    made["int64"][0, 2] = np.iinfo("int64").max
    made["uint64"][0, 2] = np.iinfo("uint64").max
    for kind in ("int8", "int64"):
        made[kind][0, 1] = -4
    for kind in ("float16", "float32", "float64"):
        made[kind] /= 2
    made["string"] = np.array([["a"] * 5] * 2, dtype=object)
    made["bool"] = np.zeros((2, 5), bool)
    return made


def classify(client: Any, library: Any, kinds: tuple[str, ...], count: int) -> Any:
    inputs = [tensor(library, name, array) for name, array in values().items()]
    outputs = [library.InferRequestedOutput(f"out_{kind}", class_count=count) for kind in kinds]
    return client.infer("kinds", inputs, outputs=outputs)


def test_outputs_come_as_the_labels_of_their_largest_values(client: Any, library: Any) -> None:
    answer = classify(client, library, KINDS, 3)
    for kind, sent in values().items():
        if kind not in KINDS:
            continue
        found = answer.as_numpy(f"out_{kind}")
        assert (found.dtype, found.shape) == (np.dtype(object), (2, 3))
        largest = [sorted((-value, at) for at, value in enumerate(row.tolist()))[:3] for row in sent]
        write = "{:.6f}:{}" if kind.startswith("float") else "{}:{}"
        expected = [[write.format(-value, at) for value, at in row] for row in largest]
        assert [[label.decode() for label in row] for row in found] == expected


@pytest.mark.parametrize("count", [1, 5, 6, 2**31 - 1])
def test_there_are_no_more_labels_than_values(client: Any, library: Any, count: int) -> None:
    found = classify(client, library, ("float32",), count).as_numpy("out_float32")
    assert found.shape == (2, min(count, 5))


def test_a_tensor_without_an_axis_for_rows_is_one(client: Any, library: Any) -> None:
    array = np.array([[1, 2, 3], [6, 5, 4]], np.float32)
    outputs = [library.InferRequestedOutput("y", class_count=2)]
    found = client.infer("whole", [tensor(library, "x", array)], outputs=outputs).as_numpy("y")
    assert found.tolist() == [b"6.000000:3", b"5.000000:4"]


@pytest.mark.parametrize("kind", ["string", "bool"])
def test_only_numbers_are_classified(client: Any, library: Any, kind: str) -> None:
    name = {"string": "BYTES", "bool": "BOOL"}[kind]
    with pytest.raises(InferenceServerException, match=f"output 'out_{kind}' is {name} and cannot be classified"):
        classify(client, library, (kind,), 2)


def test_labels_come_as_values_too(engine: EngineProcess) -> None:
    body = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 4, 3]}],
        "outputs": [{"name": "y", "parameters": {"classification": 1}}],
    }
    status, answer = post(engine, "/v2/models/whole/infer", body)
    assert (status, answer["outputs"]) == (
        200,
        [{"name": "y", "datatype": "BYTES", "shape": [1], "data": ["4.000000:2"]}],
    )
    for wrong in (-1, 1.5, "two", True):
        body["outputs"] = [{"name": "y", "parameters": {"classification": wrong}}]
        status, answer = post(engine, "/v2/models/whole/infer", body)
        assert (status, answer["error"]) == (
            400,
            "parameter 'classification' must be a whole number of labels, 0 or more",
        )


def test_a_stream_is_classified_like_one_request(engine: EngineProcess) -> None:
    request = service_pb2.ModelInferRequest(model_name="kinds")
    for name, array in values().items():
        request.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape)
        request.raw_input_contents.append(b"\x01\x00\x00\x00a" * array.size if name == "string" else array.tobytes())
    request.outputs.add(name="out_int8").parameters["classification"].int64_param = 1
    with over_grpc.grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        stub = over_grpc.service_pb2_grpc.GRPCInferenceServiceStub(channel)
        (streamed,) = stub.ModelStreamInfer(iter([request]), timeout=20)
        once = stub.ModelInfer(request, timeout=20)
    assert list(once.raw_output_contents) == [b"\x03\x00\x00\x009:2\x03\x00\x00\x008:2"]
    assert list(streamed.infer_response.raw_output_contents) == list(once.raw_output_contents)
    assert list(streamed.infer_response.outputs[0].shape) == [2, 1]


def post(engine: EngineProcess, path: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(f"http://{engine.addresses['rest']}{path}", data=json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_timeout_is_a_deadline_in_microseconds(client: Any, library: Any, gate: Gate) -> None:
    waits = [tensor(library, "x", np.full(1, 666, np.float32))]
    begun = time.monotonic()
    with pytest.raises(InferenceServerException, match="the deadline passed while the request ran") as late:
        client.infer("waits", waits, timeout=200_000)
    assert late.value.status() in ("StatusCode.DEADLINE_EXCEEDED", "504")
    assert time.monotonic() - begun < 10, "it was the engine's own deadline"
    gate.open()
    passes = [tensor(library, "x", np.zeros(1, np.float32))]
    for timeout in (0, 20_000_000, 2**62):
        assert client.infer("waits", passes, timeout=timeout).as_numpy("y").tolist() == [1.0]


REFUSED = {
    "shared memory of devices": (
        [lambda client: client.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 64)],
        "send values in the request itself, .* there is none of devices",
    ),
    "traces": (
        [
            lambda client: client.get_trace_settings(),
            lambda client: client.get_trace_settings("whole"),
            lambda client: client.update_trace_settings(settings={"trace_level": "TIMESTAMPS"}),
            lambda client: client.update_trace_settings("whole", {"trace_level": "TIMESTAMPS"}),
        ],
        "trace_endpoint and trace_sampling_rate of the engine's configuration do it",
    ),
    "logging": (
        [
            lambda client: client.get_log_settings(),
            lambda client: client.update_log_settings({"log_verbose_level": 1}),
        ],
        "`tidegate log-level` does it",
    ),
    "loading": (
        [
            lambda client: client.load_model("whole"),
            lambda client: client.load_model("another", config='{"max_batch_size": 8}'),
            lambda client: client.unload_model("whole"),
        ],
        "`tidegate push` loads a version, and `tidegate block` keeps one from serving",
    ),
}


@pytest.mark.parametrize(("calls", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_here_is_refused_with_what_to_do_instead(client: Any, calls: Any, words: str) -> None:
    for call in calls:
        with pytest.raises(InferenceServerException, match=words) as refused:
            call(client)
        assert refused.value.status() in ("StatusCode.UNIMPLEMENTED", "501")


def test_bfloat16_is_taken_as_the_floats_that_it_is(client: Any, library: Any) -> None:
    halves = tensor(library, "x", np.array([1.5, -2.25], ml_dtypes.bfloat16))
    assert client.infer("one_more", [halves]).as_numpy("y").tolist() == [2.5, -1.25]
