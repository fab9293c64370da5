"""What an engine and its models say of themselves over the Open Inference Protocol: health, metadata, configs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients.open_inference import ask
from tests.support.clients.triton import tensor
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import InferenceServerException

from tidegate_serving.contract.signature import SERVING_DEFAULT


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


def test_a_version_that_has_no_default_signature_is_found_by_metadata(http_client: Any) -> None:
    found = http_client.get_model_metadata("pair")
    assert [one["name"] for one in found["outputs"]] == ["sum", "product"]
    assert SERVING_DEFAULT not in found


def test_calls_are_counted_as_those_of_this_protocol(engine: EngineProcess, http_client: Any) -> None:
    def counted() -> float:
        page = ask(engine, "/metrics")[2].decode()
        line = 'tidegate_method_requests_total{model="m",version="2",method="ModelInfer"}'
        return sum(float(text.rpartition(" ")[2]) for text in page.splitlines() if text.startswith(line))

    before = counted()
    http_client.infer("m", [tensor(over_http, "x", np.ones(3, np.float32))], model_version="2")
    assert eventually(lambda: counted() == before + 1)


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
