"""Triton's own client libraries, unmodified, and plain HTTP against the engine's Open Inference Protocol."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients.triton import tensor
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import Draft, adding, publish
from tritonclient.grpc import model_config_pb2, service_pb2
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec

KINDS = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "string",
)
FIELDS = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "int64",
    "uint8": "uint",
    "uint16": "uint",
    "uint32": "uint",
    "uint64": "uint64",
    "float32": "fp32",
    "float64": "fp64",
    "string": "bytes",
}
ECHO = """
class Model:
    def predict(self, inputs):
        return {name.replace("in_", "out_"): value for name, value in inputs.items()}
"""
TWICE = """
import numpy as np

class Model:
    def predict(self, inputs, signature="serving_default"):
        return {"sum": inputs["a"] + inputs["b"], "product": inputs["a"] * inputs["b"]}
"""
BYTES = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": np.array([b"\\xff\\xfe"] * len(inputs["x"]), dtype=object)}
"""
WHOLE = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"].sum(axis=0)}
"""
PAIR = Signature(
    (TensorSpec("a", "float32"), TensorSpec("b", "float32")),
    (TensorSpec("sum", "float32"), TensorSpec("product", "float32")),
)


def echoing(kinds: Iterable[str]) -> Draft:
    """A model that gives back what it gets, an input and an output of each type."""
    example = {f"in_{kind}": {"string": ["a", "b"], "bool": [False, True]}.get(kind, [0, 1]) for kind in kinds}
    inputs = tuple(TensorSpec(f"in_{kind}", kind, (-1, 2)) for kind in kinds)
    outputs = tuple(TensorSpec(f"out_{kind}", kind, (-1, 2)) for kind in kinds)
    return Draft(files={"model.py": ECHO}, signature=Signature(inputs, outputs), example=example)


def values(kind: str, rows: int = 3) -> np.ndarray[Any, Any]:
    """Rows of two that use the whole range of their type."""
    if kind == "string":
        texts = [b"", b"tide", "größe".encode(), b"a" * 300, b"\x00\x01", b"zero\x00inside"]
        return np.array(texts[: rows * 2], dtype=object).reshape(rows, 2)
    if kind == "bool":
        return np.array([True, False, False, True, True, True][: rows * 2]).reshape(rows, 2)
    if kind.startswith("float"):
        limits = np.finfo(kind)
        numbers = [0.5, -2.25, limits.max, limits.min, np.inf, -np.inf]
        return np.array(numbers[: rows * 2], dtype=kind).reshape(rows, 2)
    bounds = np.iinfo(kind)
    return np.array([0, 1, bounds.max, bounds.min, 7, 9][: rows * 2], dtype=kind).reshape(rows, 2)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("open-inference")
    root = folder / "r"
    m = [publish(root, "m", number, adding(number * 100)) for number in (1, 2)]
    kinds = publish(root, "kinds", 1, echoing(KINDS))
    typed = publish(root, "typed", 1, echoing(list(FIELDS)))
    named = Draft(files={"model.py": TWICE}, signatures={"pair": PAIR}, example={"a": 1.0, "b": 2.0})
    pair = publish(root, "pair", 7, named)
    raw = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "string"),))
    fixed = Signature((TensorSpec("x", "float32", (2, -1)),), (TensorSpec("y", "float32"),), first_axis=FirstAxis.FREE)
    whole = publish(root, "whole", 1, Draft(files={"model.py": WHOLE}, signature=fixed, example={"x": [[1.0], [2.0]]}))
    raw_bytes = publish(root, "raw", 1, Draft(files={"model.py": BYTES}, signature=raw))
    with EngineProcess(folder / "engine", roots=[root], allow_unverified=True) as running:
        with running.control() as control:
            push_and_wait(control, *m, labels={"stable": 1, "canary": 2})
            for directory in (kinds, pair, raw_bytes, typed, whole):
                push_and_wait(control, directory)
        yield running


@pytest.fixture(scope="module")
def grpc_client(engine: EngineProcess) -> Iterator[Any]:
    client = over_grpc.InferenceServerClient(engine.addresses["grpc"])
    yield client
    client.close()


@pytest.fixture(scope="module")
def http_client(engine: EngineProcess) -> Iterator[Any]:
    client = over_http.InferenceServerClient(engine.addresses["rest"])
    yield client
    client.close()


def ask(engine: EngineProcess, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer; a body that is given is posted."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://{engine.addresses['rest']}{path}", data=data, headers=fields)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


def x(data: Any, shape: list[int] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "FP32", "shape": [len(data)] if shape is None else shape, "data": data, **more}


def test_both_clients_find_the_server_its_models_and_their_metadata(grpc_client: Any, http_client: Any) -> None:
    for client in (grpc_client, http_client):
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("m")
        assert client.is_model_ready("m", "2")
        assert not client.is_model_ready("m", "3")
        assert not client.is_model_ready("nobody")
    assert http_client.get_server_metadata()["name"] == grpc_client.get_server_metadata().name == "tidegate"
    metadata = http_client.get_model_metadata("kinds")
    assert metadata == grpc_client.get_model_metadata("kinds", as_json=True) | {
        "inputs": metadata["inputs"],
        "outputs": metadata["outputs"],
    }
    assert metadata["versions"] == ["1"]
    described = grpc_client.get_model_metadata("kinds")
    for tensors, listed in ((described.inputs, metadata["inputs"]), (described.outputs, metadata["outputs"])):
        assert [(one.name, one.datatype, list(one.shape)) for one in tensors] == [
            (one["name"], one["datatype"], one["shape"]) for one in listed
        ]
    assert metadata["inputs"][9] == {"name": "in_float16", "datatype": "FP16", "shape": [-1, 2]}
    assert http_client.get_model_metadata("m")["versions"] == ["1", "2"]
    with pytest.raises(InferenceServerException, match="Servable not found for request: Latest\\(nobody\\)"):
        http_client.get_model_metadata("nobody")


def test_health_is_told_in_json(engine: EngineProcess) -> None:
    told = {path: ask(engine, path) for path in ("/", "/v2/health/live", "/v2/health/ready", "/v2/models/m/ready")}
    assert {path: (status, json.loads(body)) for path, (status, _, body) in told.items()} == {
        "/": (200, {"status": "alive"}),
        "/v2/health/live": (200, {"live": True}),
        "/v2/health/ready": (200, {"ready": True}),
        "/v2/models/m/ready": (200, {"name": "m", "ready": True}),
    }
    assert {headers["content-type"] for _, headers, _ in told.values()} == {"application/json"}
    status, _, body = ask(engine, "/v2/models/nobody/ready")
    assert (status, json.loads(body)) == (
        404,
        {"name": "nobody", "ready": False, "error": "Servable not found for request: Latest(nobody)"},
    )


def test_a_models_config_says_how_it_is_called(grpc_client: Any, http_client: Any) -> None:
    config = http_client.get_model_config("kinds", "1")
    assert (config["name"], config["max_batch_size"]) == ("kinds", 1024)
    assert config["input"][9] == {"name": "in_float16", "data_type": "TYPE_FP16", "dims": [2]}
    sent = grpc_client.get_model_config("kinds").config
    assert (sent.name, sent.platform, sent.backend, sent.max_batch_size) == ("kinds", "tidegate", "tidegate", 1024)
    for tensors, kind in ((sent.input, "input"), (sent.output, "output")):
        assert [(one.name, model_config_pb2.DataType.Name(one.data_type), list(one.dims)) for one in tensors] == [
            (one["name"], one["data_type"], one["dims"]) for one in config[kind]
        ]
    metadata = http_client.get_model_metadata("kinds")
    spelled = [one["datatype"].replace("BYTES", "STRING") for one in metadata["inputs"]]
    assert [one["data_type"] for one in config["input"]] == [f"TYPE_{one}" for one in spelled]
    for client in (grpc_client, http_client):
        with pytest.raises(InferenceServerException, match="Servable not found for request: Specific\\(kinds, 7\\)"):
            client.get_model_config("kinds", "7")


def test_a_model_without_an_axis_for_rows_has_no_batch_size(grpc_client: Any, http_client: Any) -> None:
    config = http_client.get_model_config("whole")
    assert (config["max_batch_size"], config["input"][0]["dims"]) == (0, [2, -1])
    sent = grpc_client.get_model_config("whole").config
    assert (sent.max_batch_size, list(sent.input[0].dims)) == (0, [2, -1])


def test_a_tensor_of_rows_alone_has_no_batch_size(grpc_client: Any, http_client: Any) -> None:
    config = http_client.get_model_config("m")
    assert (config["max_batch_size"], config["input"][0]["dims"]) == (0, [-1])
    assert grpc_client.get_model_config("m").config.max_batch_size == 0


def test_a_stream_to_a_method_that_is_not_here_ends_at_once(engine: EngineProcess) -> None:
    over = threading.Event()

    def open_ended() -> Iterator[bytes]:
        over.wait()
        yield b""

    with over_grpc.grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        answers = channel.stream_stream("/some.Service/Talk")(open_ended(), timeout=20)
        with pytest.raises(over_grpc.grpc.RpcError, match=r"unknown method /some\.Service/Talk") as refused:
            next(answers)
        over.set()
    assert refused.value.code() is over_grpc.grpc.StatusCode.UNIMPLEMENTED


def test_the_repository_is_listed_and_changed_elsewhere(
    engine: EngineProcess, grpc_client: Any, http_client: Any
) -> None:
    listed = http_client.get_model_repository_index()
    assert [(one["name"], one["version"], one["state"]) for one in listed] == [
        ("kinds", "1", "READY"),
        ("m", "1", "READY"),
        ("m", "2", "READY"),
        ("pair", "7", "READY"),
        ("raw", "1", "READY"),
        ("typed", "1", "READY"),
        ("whole", "1", "READY"),
    ]
    index = grpc_client.get_model_repository_index()
    assert [(one.name, one.version, one.state) for one in index.models] == [
        (one["name"], one["version"], one["state"]) for one in listed
    ]
    names = json.loads(ask(engine, "/v2/models")[2])
    assert names == {"models": ["kinds", "m", "pair", "raw", "typed", "whole"]}
    for client in (grpc_client, http_client):
        with pytest.raises(
            InferenceServerException, match="loaded and unloaded over the control port, through their gates"
        ):
            client.load_model("m")


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


def test_calls_are_counted_as_those_of_this_protocol(engine: EngineProcess, http_client: Any) -> None:
    def counted() -> float:
        page = ask(engine, "/metrics")[2].decode()
        line = 'tidegate_method_requests_total{model="m",version="2",method="ModelInfer"}'
        return sum(float(text.rpartition(" ")[2]) for text in page.splitlines() if text.startswith(line))

    before = counted()
    http_client.infer("m", [tensor(over_http, "x", np.ones(3, np.float32))], model_version="2")
    assert counted() == before + 1


def test_a_version_that_has_no_default_signature_is_found_by_metadata(http_client: Any) -> None:
    found = http_client.get_model_metadata("pair")
    assert [one["name"] for one in found["outputs"]] == ["sum", "product"]
    assert SERVING_DEFAULT not in found
