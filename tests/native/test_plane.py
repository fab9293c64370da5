"""The plane's life through the border: settings, changes, releases, control calls, drain, and the interpreter's end."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.native.running import MODEL, grpc_call, half_plus_two, log_all, logged_rows, publish, running, signature
from tests.support.clients.rest import call
from tests.support.eventually import eventually
from tidegate_native import (
    Batch,
    Batching,
    Retire,
    SetLabels,
    SetShadow,
    Settings,
    Signature,
    TensorSpec,
)

from tidegate_serving.contract.messages import message


def test_values_that_cannot_be_are_refused_where_they_are_made() -> None:
    with pytest.raises(ValueError, match="dtype 'bfloat16': use one of bool, int8"):
        TensorSpec(name="x", dtype="bfloat16", shape=[-1])
    with pytest.raises(ValueError, match="first axis is the batch and must be -1, not 3"):
        signature([("x", "float32", (3, 2))])
    with pytest.raises(ValueError, match="two inputs named 'x'"):
        signature([("x", "float32", (-1,)), ("x", "float32", (-1,))])
    with pytest.raises(ValueError, match="has no output"):
        Signature(name="s", method_name="", inputs=[TensorSpec(name="x", dtype="bool", shape=[-1])], outputs=[])
    with pytest.raises(ValueError, match="max_batch_rows is 0"):
        Batching(max_batch_rows=0)
    with pytest.raises(ValueError, match="io_threads is 0"):
        Settings(grpc_address="127.0.0.1:0", rest_address=None, io_threads=0)
    with pytest.raises(TypeError, match="must be callable"):
        publish("no model")  # type: ignore[arg-type]


def test_an_address_in_use_is_an_os_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen on {address}"), running(grpc_address=address):
            pass


def test_without_a_rest_address_there_is_no_rest_endpoint() -> None:
    with running(rest_address=None) as plane:
        assert plane.plane.rest_address is None


def test_changes_that_cannot_be_change_nothing() -> None:
    with running(publish(half_plus_two)) as plane:
        label = SetLabels(model=MODEL, labels={"stable": 3})
        with pytest.raises(ValueError, match="label 'stable' of model 'm' names version 3"):
            plane.plane.apply([publish(half_plus_two, 2), label])
        with pytest.raises(ValueError, match="version 1 is published already"):
            plane.plane.apply([publish(half_plus_two)])
        with pytest.raises(TypeError, match="is not a change"):
            plane.plane.apply([publish(half_plus_two, 2), "label"])  # type: ignore[list-item]
        assert plane.predict([1.0]).headers["x-tidegate-version"] == "1"
        plane.plane.apply([publish(half_plus_two, 3), label])
        assert plane.predict([1.0]).headers["x-tidegate-version"] == "3"


def test_a_retired_version_is_released_once_its_requests_are_answered() -> None:
    class Model:
        """Holds its batch until told."""

        def __init__(self) -> None:
            self.entered, self.go = threading.Event(), threading.Event()

        def __call__(self, batch: Batch) -> dict[str, Any]:
            self.entered.set()
            assert self.go.wait(20)
            return half_plus_two(batch)

    model = Model()
    entered, go, life = model.entered, model.go, weakref.ref(model)
    with running() as plane:
        plane.plane.apply([publish(model)])
        del model
        answers: list[Any] = []
        client = threading.Thread(target=lambda: answers.append(plane.predictions([1.0])))
        client.start()
        assert entered.wait(20)
        plane.plane.apply([Retire(model=MODEL, version=1)])
        assert plane.predict([1.0]).status == 404
        assert plane.released == []
        assert life() is not None
        go.set()
        client.join(20)
        assert answers == [[2.5]]
        eventually(lambda: plane.released != [])
        assert plane.released[0][:2] == (MODEL, 1)
        assert life() is None, "the model is gone before its release is told"


def test_control_calls_reach_python_with_their_path_and_come_back_with_their_status() -> None:
    class Refused(Exception):
        grpc_code = 9

    def control(method: str, request: bytes) -> bytes:
        if not request:
            raise Refused("an empty config")
        return bytes(
            message("tensorflow.serving.ReloadConfigResponse")(status={"error_message": "ok"}).SerializeToString()
        )

    path = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
    with running(control=control) as plane:
        request = message("tensorflow.serving.ReloadConfigRequest")(config={"model_config_list": {}})
        answer = grpc_call(plane.grpc, path, request, "tensorflow.serving.ReloadConfigResponse")
        assert answer.status.error_message == "ok"
        with pytest.raises(grpc.RpcError) as refused:
            grpc_call(plane.grpc, path, type(request)(), "tensorflow.serving.ReloadConfigResponse")
        assert (refused.value.code(), refused.value.details()) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "an empty config",
        )
        assert [method for method, _ in plane.asked] == [path] * 2


def test_model_status_is_answered_without_python() -> None:
    def control(method: str, request: bytes) -> bytes:
        raise AssertionError(method)

    with running(control=control) as plane:
        plane.plane.set_states(MODEL, [(7, 30, 0, ""), (6, 50, 15, "cut short")])
        good = {"version": "7", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        lost = {"version": "6", "state": "END", "status": {"error_code": "DATA_LOSS", "error_message": "cut short"}}
        assert call(plane.rest, "GET", "/v1/models/m").json() == {"model_version_status": [good, lost]}
        missing = call(plane.rest, "GET", "/v1/models/n")
        assert (missing.status, missing.json()) == (404, {"error": "Could not find any versions of model n"})
        path = "/tensorflow.serving.ModelService/GetModelStatus"
        request = message("tensorflow.serving.GetModelStatusRequest")()
        request.model_spec.name = MODEL
        over_grpc = grpc_call(plane.grpc, path, request, "tensorflow.serving.GetModelStatusResponse")
        assert [entry.version for entry in over_grpc.model_version_status] == [7, 6]
        assert over_grpc.model_version_status[1].status.error_message == "cut short"


def test_a_request_without_rows_gets_an_answer_without_rows_also_in_process() -> None:
    def never(batch: Batch) -> dict[str, Any]:
        raise AssertionError(batch.rows)

    made = signature([("x", "float32", (-1, 2))], [("y", "float64", (-1, 3))])
    with running(publish(never, made=made)) as plane:
        outputs, version = plane.plane.predict(MODEL, {"x": np.zeros((0, 2), "f4")})
        assert (outputs["y"].shape, outputs["y"].dtype, version) == ((0, 3), np.float64, 1)
        reply = call(plane.rest, "POST", "/v1/models/m:predict", {"inputs": []})
        assert (reply.status, reply.json()) == (200, {"outputs": []})


def test_metadata_is_the_signature_as_tensorflow_serving_packs_it() -> None:
    made = signature([("x", "float32", (-1, 4)), ("s", "string", (-1,))])
    request = message("tensorflow.serving.GetModelMetadataRequest")(metadata_field=["signature_def"])
    request.model_spec.name = MODEL
    path = "/tensorflow.serving.PredictionService/GetModelMetadata"
    with running(publish(half_plus_two, made=made)) as plane:
        answer = grpc_call(plane.grpc, path, request, "tensorflow.serving.GetModelMetadataResponse")
        over_rest = call(plane.rest, "GET", "/v1/models/m/metadata").json()
    packed = answer.metadata["signature_def"]
    assert packed.type_url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    signatures = message("tensorflow.serving.SignatureDefMap").FromString(packed.value).signature_def
    x = signatures["serving_default"].inputs["x"]
    assert (answer.model_spec.version.value, x.name, x.dtype) == (1, "x", 1)
    assert [dim.size for dim in x.tensor_shape.dim] == [-1, 4]
    inputs = over_rest["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    assert (inputs["x"]["dtype"], inputs["s"]["dtype"]) == ("DT_FLOAT", "DT_STRING")


def test_answers_are_logged_without_python(tmp_path: Path) -> None:
    with running(publish(half_plus_two), log_all(), log_path=tmp_path) as plane:
        plane.predict([1.0, 2.0], x_request_id="mine")
        rows = plane.logged(tmp_path, 2)
    assert [(row["model"], row["version"], row["signature"]) for row in rows] == [(MODEL, 1, "serving_default")] * 2
    told = [(row["request_id"], row["row"], row["role"], row["status"], row["in.x"], row["out.y"]) for row in rows]
    assert told == [("mine", 0, "primary", 0, 1.0, 2.5), ("mine", 1, "primary", 0, 2.0, 3.0)]
    assert plane.told == []


def test_a_log_without_a_place_is_counted_as_dropped() -> None:
    with running(publish(half_plus_two), log_all()) as plane:
        plane.predict([1.0])
    stats = plane.plane.stats()
    counts = [stats[f'tidegate_log_{what}_rows_total{{role="primary"}}'] for what in ("eligible", "written", "dropped")]
    assert counts == [1, 0, 1]


def test_a_shadow_is_logged_with_the_primary_s_id(tmp_path: Path) -> None:
    both = [publish(half_plus_two), publish(lambda batch: {"y": -batch.inputs["x"]}, 2)]
    with running(*both, SetLabels(model=MODEL, labels={"stable": 1}), log_all(), log_path=tmp_path) as plane:
        plane.plane.apply([SetShadow(model=MODEL, version=2, fraction=1.0)])
        assert plane.predict([4.0], x_request_id="a").json() == {"predictions": [4.0]}
    found = [(row["version"], row["request_id"], row["role"], row["out.y"]) for row in logged_rows(tmp_path)]
    assert found == [(1, "a", "primary", 4.0), (2, "a", "shadow", -4.0)]


def test_a_drain_answers_what_was_accepted(tmp_path: Path) -> None:
    entered, go = threading.Event(), threading.Event()

    def wait(batch: Batch) -> dict[str, Any]:
        entered.set()
        assert go.wait(20)
        return half_plus_two(batch)

    with running(publish(wait), log_all(), log_path=tmp_path) as plane:
        answers: list[Any] = []
        client = threading.Thread(target=lambda: answers.append(plane.predictions([1.0])))
        client.start()
        assert entered.wait(20)
        threading.Timer(0.05, go.set).start()
        assert plane.plane.drain(10_000)
        client.join(20)
        assert answers == [[2.5]]
        assert len(logged_rows(tmp_path)) == 1
        with pytest.raises(ConnectionRefusedError):
            plane.predict([1.0])


def test_a_client_s_deadline_is_kept() -> None:
    go = threading.Event()

    def wait(batch: Batch) -> dict[str, Any]:
        assert go.wait(20)
        return half_plus_two(batch)

    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = MODEL
    request.inputs["x"].dtype = 1
    request.inputs["x"].tensor_shape.dim.add(size=1)
    request.inputs["x"].float_val.append(1.0)
    path, reply = "/tensorflow.serving.PredictionService/Predict", "tensorflow.serving.PredictResponse"
    with running(publish(wait)) as plane:
        with pytest.raises(grpc.RpcError) as late:
            grpc_call(plane.grpc, path, request, reply, timeout=0.1)
        assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        go.set()
        answer = grpc_call(plane.grpc, path, request, reply)
        assert list(answer.outputs["y"].float_val) == [2.5]


EXIT = """
import contextlib, http.client, sys, threading, time
import tidegate_native as native

entered = threading.Event()
def model(batch):
    entered.set()
    {work}
    return {{"y": batch.inputs["x"]}}

spec = lambda name: native.TensorSpec(name=name, dtype="float32", shape=[-1])
signature = native.Signature(name="serving_default", method_name="", inputs=[spec("x")], outputs=[spec("y")])
settings = native.Settings(grpc_address="127.0.0.1:0", rest_address="127.0.0.1:0")
plane = native.DataPlane.start(settings, released=print, control=print, log_told=print)
batching = native.Batching()
plane.apply([native.Publish(model="m", version=1, signatures=[signature], executor=model, batching=batching),
             native.SetLog(model="m", sampling_rate=1.0)])
def ask():
    connection = http.client.HTTPConnection(plane.rest_address)
    connection.request("POST", "/v1/models/m:predict", b'{{"instances": [1]}}')
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.getresponse()
threading.Thread(target=ask, daemon=True).start()
assert entered.wait(20)
{end}
"""


@pytest.mark.parametrize("work", ["pass", "time.sleep(0.3)", "sum(range(10_000_000))"])
@pytest.mark.parametrize("end", ["pass", "del plane", "sys.exit(0)"])
def test_the_interpreter_ends_without_a_drain(work: str, end: str) -> None:
    program = textwrap.dedent(EXIT).format(work=work, end=end)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_interpreter_ends_although_a_model_never_returns() -> None:
    program = textwrap.dedent(EXIT).format(work="while True: pass", end="pass")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
