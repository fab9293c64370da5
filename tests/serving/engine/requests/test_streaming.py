"""Streaming answers of a published Python model, as real clients read them: server-sent events and gRPC streams."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
from tests.support.clients.triton import TritonStream
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.desired_state import Shadow
from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.inference_log.reader import connect

MODEL = """
import os, time
from pathlib import Path
import numpy as np

class Model:
    def count(self, inputs):
        n, folder = int(inputs["n"]), inputs["folder"].item().decode()
        if n < 0:
            raise ValueError("below zero")
        try:
            for i in range(n):
                if i and folder:
                    while i >= 2 and not Path(folder, "go").exists():
                        yield {"i": i, "word": "waits"}
                        time.sleep(0.001)
                yield {"i": i, "word": f"line {i}\\n"}
                if i == 3 and n == 7:
                    raise ValueError("broken at 3")
                if i == 3 and n == 9:
                    os.kill(os.getpid(), 9)
        finally:
            if folder:
                Path(folder, "closed").touch()

    def predict(self, inputs):
        return {"y": inputs["x"] * 2}
"""
STREAM = Signature(
    (TensorSpec("n", "int64", ()), TensorSpec("folder", "string", ())),
    (TensorSpec("i", "int64", ()), TensorSpec("word", "string", ())),
    first_axis=FirstAxis.FREE,
    defaults={"folder": ""},
    streaming=True,
)
ONCE = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))
METHODS = json.dumps({SERVING_DEFAULT: "count", "once": "predict"})
DRAFT = Draft(
    files={"model.py": MODEL},
    signatures={SERVING_DEFAULT: STREAM, "once": ONCE},
    metadata={"python.methods": METHODS},
    example={"n": 2, "folder": ""},
)
EVENTS = {"Accept": "text/event-stream"}


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[EngineProcess]:
    directory = publish(folder / "r", "m", 1, DRAFT)
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True, **settings) as running:
        with running.control() as control:
            push_and_wait(control, directory)
        yield running


@pytest.fixture(scope="module", params=["engine", "own"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with serving(tmp_path_factory.mktemp("engine"), isolation=request.param) as running:
        yield running


@pytest.fixture(params=["engine", "own"])
def ending(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineProcess]:
    """An engine that the test ends, with a log."""
    log = {"log_path": tmp_path / "log", "log_sampling_rate": 1.0, "log_block_seconds": 0.05}
    with serving(tmp_path, isolation=request.param, **log) as running:
        yield running


def ask(engine: EngineProcess, path: str, body: Any, **headers: str) -> tuple[http.client.HTTPConnection, Any]:
    connection = http.client.HTTPConnection(engine.addresses["rest"], timeout=60)
    connection.request("POST", path, json.dumps(body), headers)
    return connection, connection.getresponse()


def event(response: Any) -> tuple[str, Any]:
    """The next event: its type, and its data."""
    kind, data = "message", ""
    while line := response.readline().decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        kind, data = (value, data) if name == "event" else (kind, value)
    return kind, json.loads(data)


def events(engine: EngineProcess, path: str, body: Any) -> list[tuple[str, Any]]:
    connection, response = ask(engine, path, body, **EVENTS)
    try:
        assert (response.status, response.getheader("content-type")) == (200, "text/event-stream")
        assert response.getheader("x-tidegate-version") == "1"
        assert response.getheader("x-accel-buffering") == "no", "nginx keeps the events otherwise"
        found = [event(response)]
        while found[-1][0] == "message":
            found.append(event(response))
        assert response.read() == b""
        return found
    finally:
        connection.close()


def error(engine: EngineProcess, path: str, body: Any, **headers: str) -> tuple[int, str]:
    connection, response = ask(engine, path, body, **headers)
    with closing(connection):
        return response.status, json.load(response)["error"]


def samples(engine: EngineProcess) -> dict[str, float]:
    connection = http.client.HTTPConnection(engine.addresses["rest"], timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


class Stream(TritonStream):
    """A call that counts."""

    def __init__(self, engine: EngineProcess, **options: Any) -> None:
        super().__init__(engine.addresses["grpc"], **options)

    def count(self, n: int, folder: str = "", **options: Any) -> None:
        self.ask("m", {"n": np.array(n), "folder": np.array(folder.encode(), dtype=object)}, **options)


@pytest.fixture
def stream(engine: EngineProcess) -> Iterator[Stream]:
    made = Stream(engine)
    yield made
    made.close()


def test_each_message_is_an_event(engine: EngineProcess) -> None:
    told = events(engine, "/v1/models/m:predict", {"inputs": {"n": 2}})
    assert told == [
        ("message", {"outputs": {"i": 0, "word": "line 0\n"}}),
        ("message", {"outputs": {"i": 1, "word": "line 1\n"}}),
        ("end", {"messages": 2}),
    ]
    assert events(engine, "/v1/models/m:predict", {"inputs": {"n": 0}}) == [("end", {"messages": 0})]
    body = {"id": "q", "inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [2]}]}
    first, second, end = events(engine, "/v2/models/m/infer", body)
    assert end == ("end", {"messages": 2})
    assert [(first[1]["id"], first[1]["model_version"])] == [("q", "1")]
    assert [output["data"] for output in second[1]["outputs"]] == [[1], ["line 1\n"]]


def test_what_goes_wrong_is_an_event_or_before_any_an_answer(engine: EngineProcess) -> None:
    *messages, (kind, last) = events(engine, "/v1/models/m:predict", {"inputs": {"n": 7}})
    assert [data["outputs"]["i"] for _, data in messages] == [0, 1, 2, 3]
    assert (kind, last["error"]) == ("error", "m:1 raised ValueError: broken at 3")
    status, why = error(engine, "/v1/models/m:predict", {"inputs": {"n": -1}}, **EVENTS)
    assert (status, why) == (500, "m:1 raised ValueError: below zero")
    assert error(engine, "/v1/models/none:predict", {"inputs": {"n": 1}}, **EVENTS)[0] == 404
    assert error(engine, "/v1/models/m:predict", {"inputs": {"n": "x"}}, **EVENTS)[0] == 400


def test_a_stream_and_one_answer_are_not_each_other(engine: EngineProcess) -> None:
    status, why = error(engine, "/v1/models/m:predict", {"inputs": {"n": 1}})
    assert (status, "answers with a stream of messages: ask for it with header 'Accept:" in why) == (400, True)
    asked = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [1]}]}
    binary = {"outputs": [{"name": "i", "parameters": {"binary_data": True}}]}
    for wanted in (binary, {"parameters": {"binary_data_output": True}}):
        status, why = error(engine, "/v2/models/m/infer", {**asked, **wanted}, **EVENTS)
        assert (status, "binary data, which events cannot carry" in why) == (400, True)
    once = {"signature_name": "once", "inputs": {"x": [1]}}
    status, why = error(engine, "/v1/models/m:predict", once, **EVENTS)
    assert (status, "answers once and has no stream" in why) == (400, True)
    with engine.client() as client, pytest.raises(InvalidInput, match="by ModelStreamInfer"):
        client.predict("m", {"n": np.array(1), "folder": np.array(b"", dtype=object)})
    connection, response = ask(engine, "/v1/models/m:predict", once, Accept="text/html, */*")
    assert json.load(response) == {"outputs": [2.0]}
    connection.close()


def test_a_client_that_hangs_up_ends_the_generator(engine: EngineProcess, stream: Stream, tmp_path: Path) -> None:
    connection, response = ask(engine, "/v1/models/m:predict", {"inputs": {"n": 5, "folder": str(tmp_path)}}, **EVENTS)
    assert event(response)[0] == "message"
    assert not (tmp_path / "closed").exists()
    response.close()
    connection.close()
    eventually((tmp_path / "closed").exists)
    (tmp_path / "closed").unlink()
    stream.count(5, str(tmp_path))
    assert stream.next().as_numpy("i") == 0
    stream.hang_up()
    eventually((tmp_path / "closed").exists)
    eventually(lambda: samples(engine)["tidegate_request_memory_bytes"] == 0)
    by = 'model="m",version="1"'
    cancelled = f'tidegate_requests_total{{endpoint="rest",{by},status="CANCELLED"}}'
    eventually(lambda: samples(engine).get(cancelled) == 1)

    def is_entered_once_a_batch() -> bool:
        now = samples(engine)
        return now[f"tidegate_batches_total{{{by}}}"] == now[f"tidegate_python_entries_total{{{by}}}"]

    eventually(is_entered_once_a_batch)


def test_a_triton_client_streams_request_after_request(engine: EngineProcess, stream: Stream) -> None:
    stream.count(2, request_id="a", enable_empty_final_response=True)
    stream.ask(
        "m",
        {"x": np.array([1, 2], np.float32)},
        parameters={"signature_name": "once"},
        request_id="b",
        enable_empty_final_response=True,
    )
    stream.count(1, request_id="c")
    came = sorted((stream.next() for _ in range(5)), key=lambda one: str(one.get_response().id))
    told = [(one.get_response().id, one.get_response().parameters["triton_final_response"].bool_param) for one in came]
    assert told == [("a", False), ("a", False), ("a", True), ("b", True), ("c", False)]
    assert [one.as_numpy("i") for one in came] == [0, 1, None, None, 0]
    assert came[1].as_numpy("word") == b"line 1\n"
    assert came[3].as_numpy("y").tolist() == [2.0, 4.0]
    assert came[2].get_response().model_version == "1"


def test_a_triton_client_may_compress_its_stream(engine: EngineProcess) -> None:
    with closing(Stream(engine, compression_algorithm="gzip")) as stream:
        for rows in (1, 1000, 500_000):
            stream.ask("m", {"x": np.full(rows, 3, np.float32)}, parameters={"signature_name": "once"})
            assert np.array_equal(stream.next().as_numpy("y"), np.full(rows, 6, np.float32))
    eventually(lambda: samples(engine)["tidegate_request_memory_bytes"] == 0)


def test_a_models_config_says_that_it_streams(engine: EngineProcess) -> None:
    with over_grpc.InferenceServerClient(engine.addresses["grpc"]) as client:
        assert client.get_model_config("m").config.model_transaction_policy.decoupled


def test_an_error_is_a_message_of_the_grpc_stream_and_does_not_end_it(stream: Stream) -> None:
    stream.count(7)
    assert [int(stream.next().as_numpy("i")) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(Exception, match="m:1 raised ValueError: broken at 3"):
        stream.next()
    stream.ask("none", {"n": np.array(1)})
    with pytest.raises(Exception, match="Servable not found"):
        stream.next()
    stream.count(1)
    assert stream.next().as_numpy("i") == 0


def test_a_stream_is_one_row_of_the_log_with_its_last_message(ending: EngineProcess, tmp_path: Path) -> None:
    events(ending, "/v1/models/m:predict", {"inputs": {"n": 3}})
    events(ending, "/v1/models/m:predict", {"inputs": {"n": 7}})
    events(ending, "/v1/models/m:predict", {"inputs": {"n": 0}})
    assert ending.stop() == 0
    with connect(tmp_path / "log") as connection:
        rows = connection.execute('SELECT "in.n", "out.i", status FROM log ORDER BY 1').fetchall()
    assert rows == [(3, 2, 0), (7, None, 13)]


def test_a_shadow_runs_the_whole_stream_for_its_log_alone(ending: EngineProcess, tmp_path: Path) -> None:
    directories = [publish(tmp_path / "r", "m", version, DRAFT) for version in (1, 2)]
    with ending.control() as control:
        push_and_wait(control, *directories, labels={"stable": 1}, shadow=Shadow(2, 1.0))
        assert len(events(ending, "/v1/models/m:predict", {"inputs": {"n": 3}})) == 4
        by = 'model="m",version="2"'
        eventually(lambda: samples(ending).get(f"tidegate_stream_messages_total{{{by}}}") == 3)
        assert samples(ending)[f"tidegate_shadow_copied_total{{{by}}}"] == 1
    assert ending.stop() == 0
    with connect(tmp_path / "log") as connection:
        query = 'SELECT version, role, "in.n", "out.i", status FROM log ORDER BY version'
        rows = connection.execute(query).fetchall()
    assert rows == [(1, "primary", 3, 2, 0), (2, "shadow", 3, 2, 0)]


def test_a_drain_waits_for_the_end_of_a_stream(ending: EngineProcess, tmp_path: Path) -> None:
    connection, response = ask(ending, "/v1/models/m:predict", {"inputs": {"n": 3, "folder": str(tmp_path)}}, **EVENTS)
    assert event(response)[1] == {"outputs": {"i": 0, "word": "line 0\n"}}
    ending.terminate()
    while event(response)[1]["outputs"]["word"] != "waits":
        pass
    (tmp_path / "go").touch()
    while (told := event(response))[0] == "message":
        pass
    assert told[0] == "end"
    assert ending.wait() == 0
    connection.close()


def test_streams_stay_open_and_idle_ones_end_with_the_drain(ending: EngineProcess) -> None:
    idle = Stream(ending)
    idle.count(1)
    assert idle.next().as_numpy("i") == 0
    ending.terminate()
    with pytest.raises(Exception, match="draining"):
        idle.next()
    assert ending.wait() == 0
    idle.close()


@pytest.mark.parametrize("engine", ["own"], indirect=True, scope="module")
def test_a_worker_that_dies_in_the_middle_ends_its_stream_alone(engine: EngineProcess, stream: Stream) -> None:
    *messages, (kind, last) = events(engine, "/v1/models/m:predict", {"inputs": {"n": 9}})
    assert (len(messages), kind) == (4, "error")
    assert "ended its worker process in the middle of a stream: it was ended by SIGKILL" in last["error"]
    stream.count(2)
    assert [int(stream.next().as_numpy("i")) for _ in range(2)] == [0, 1]


def test_a_generator_needs_a_streaming_signature(tmp_path: Path) -> None:
    source = 'class Model:\n    def predict(self, inputs):\n        yield {"y": inputs["x"]}\n'
    directory = publish(tmp_path / "r", "m", 1, Draft(files={"model.py": source}, signature=ONCE))
    with (
        EngineProcess(tmp_path / "engine", roots=[tmp_path / "r"], allow_unverified=True) as engine,
        engine.control() as control,
        pytest.raises(
            TidegateError, match="is a generator, but signature 'serving_default' answers once: give it \"str"
        ),
    ):
        push_and_wait(control, directory)


def test_a_signature_keeps_what_it_is_and_streams_free(tmp_path: Path) -> None:
    assert Signature.from_dict(STREAM.to_dict()) == STREAM
    with pytest.raises(InvalidInput, match="its requests run alone: give it the first axis 'free'"):
        Signature(ONCE.inputs, ONCE.outputs, streaming=True)
