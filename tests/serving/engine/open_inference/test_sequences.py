"""Sequences through Triton's clients: a model keeps something from request to request, in order, for each of them."""

from __future__ import annotations

import itertools
import os
import queue
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
from tests.support.clients.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MOST_IN_A_FRAME,
    WINDOW_UPDATE,
    Http2,
    call_frames,
    call_headers,
    frame,
    grpc_message,
)
from tests.support.clients.rest import call
from tests.support.clients.triton import tensor
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from tidegate_serving.contract.signature import SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START, FirstAxis, Signature
from tidegate_serving.contract.signature import TensorSpec as Spec

SUMS = """
import os
import time

class Model:
    def predict(self, inputs, sequence):
        if inputs["x"].item() < 0:  # runs until there is a file of the sequence's name
            open(f"{sequence.id}.entered", "w").close()
            while not os.path.exists(sequence.id):
                time.sleep(0.01)
        sequence.state["sum"] = sequence.state.get("sum", 0) + inputs["x"]
        return {"y": sequence.state["sum"], "pid": inputs["x"] * 0 + os.getpid()}
"""
X, Y, PID = (Spec(name, "int64", (1, 1)) for name in ("x", "y", "pid"))
IDS = iter(range(100, 10_000))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("sequences")
    told = {"inputs": [X.to_dict()], "outputs": [Y.to_dict(), PID.to_dict()], "first_axis": "free", "sequences": True}
    signature = Signature.from_dict(told)
    assert signature.first_axis is FirstAxis.FREE
    example = {"x": [[1]], SEQUENCE_ID: "example", SEQUENCE_START: True, SEQUENCE_END: True}
    sums = Draft(files={"model.py": SUMS}, signature=signature, example=example)
    batching = {"concurrency": 4, "priority_levels": 3}
    with EngineProcess(
        folder / "engine", roots=[folder / "r"], allow_unverified=True, batching=batching, log_path=folder / "log"
    ) as running:
        with running.control() as control:
            push_and_wait(control, publish(folder / "r", "sums", 1, sums))
            push_and_wait(control, publish(folder / "r", "half", 1))
        yield running


def number(library: Any, x: int) -> list[Any]:
    array = np.array([[x]], np.int64)
    return [tensor(library, "x", array)]


def ask(client: Any, library: Any, x: int, **options: Any) -> int:
    return int(client.infer("sums", number(library, x), **options).as_numpy("y").item())


@pytest.mark.parametrize("kind", [int, str], ids=["a number", "a text"])
def test_each_sequence_is_summed_by_itself(client: Any, library: Any, kind: type) -> None:
    a, b = kind(next(IDS)), kind(next(IDS))
    assert ask(client, library, 1, sequence_id=a, sequence_start=True) == 1
    assert ask(client, library, 10, sequence_id=b, sequence_start=True) == 10
    assert ask(client, library, 2, sequence_id=a) == 3
    assert ask(client, library, 20, sequence_id=b, sequence_end=True) == 30
    assert ask(client, library, 4, sequence_id=a, sequence_end=True) == 7
    with pytest.raises(InferenceServerException, match=f"for sequence {a} to model 'sums' must specify the START flag"):
        ask(client, library, 1, sequence_id=a)


def test_what_is_part_of_no_sequence_is_refused(client: Any, library: Any) -> None:
    with pytest.raises(InferenceServerException, match="must specify a non-zero or non-empty correlation ID"):
        ask(client, library, 1)
    with pytest.raises(InferenceServerException, match="cannot be longer than 128 characters"):
        ask(client, library, 1, sequence_id="a" * 129, sequence_start=True)


def test_its_three_inputs_are_not_shown_and_its_config_says_what_it_is(client: Any, library: Any) -> None:
    more = {"as_json": True} if library is over_grpc else {}
    metadata, config = client.get_model_metadata("sums", **more), client.get_model_config("sums", **more)
    config = config.get("config", config)
    assert [one["name"] for one in metadata["inputs"]] == ["x"]
    assert [one["name"] for one in config["input"]] == ["x"]
    assert config["sequence_batching"] == {"direct": {}}
    assert "sequence_batching" not in client.get_model_config("half", **more).get("config", {})
    assert "sequence" in client.get_server_metadata(**more)["extensions"]


def test_a_model_without_sequences_takes_no_notice_as_in_triton(client: Any, library: Any) -> None:
    x = library.InferInput("x", [1], "FP32")
    x.set_data_from_numpy(np.array([2], np.float32))
    assert client.infer("half", [x], sequence_id=7).as_numpy("y").tolist() == [3.0]


def test_requests_of_many_sequences_at_once_run_in_their_order(engine: EngineProcess) -> None:
    ids = [next(IDS) for _ in range(8)]
    came: queue.Queue[Any] = queue.Queue()
    with over_grpc.InferenceServerClient(engine.addresses["grpc"]) as grpc_client:
        # Calls that are made before there is a connection go out in any order.
        assert grpc_client.is_server_live()
        for turn, name in itertools.product(range(20), ids):
            options = {"sequence_start": turn == 0, "sequence_end": turn == 19, "priority": 1 + turn % 3}
            grpc_client.async_infer(
                "sums",
                number(over_grpc, 1),
                lambda result, error, turn=turn: came.put((turn, error or int(result.as_numpy("y").item()))),
                sequence_id=name,
                **options,
            )
        found = [came.get(timeout=30) for _ in range(20 * len(ids))]
    assert sorted(found) == sorted((turn, turn + 1) for turn in range(20) for _ in ids)


def test_a_small_message_waits_for_a_large_one_of_its_connection_that_came_before(engine: EngineProcess) -> None:
    name, path = str(next(IDS)), "/inference.GRPCInferenceService/ModelInfer"

    def message(padding: int, **turn: bool) -> bytes:
        x = {"name": "x", "datatype": "INT64", "shape": [1, 1]}
        request = service_pb2.ModelInferRequest(model_name="sums", inputs=[x], raw_input_contents=[bytes(8)])
        request.parameters["sequence_id"].string_param = name
        request.parameters["padding"].string_param = " " * padding
        for key, value in turn.items():
            request.parameters[key].bool_param = value
        return bytes(request.SerializeToString())

    with Http2(engine.addresses["grpc"]) as peer:
        assert peer.until(WINDOW_UPDATE)
        large = grpc_message(message(200_000, sequence_start=True))
        parts = [large[at : at + MOST_IN_A_FRAME] for at in range(0, len(large), MOST_IN_A_FRAME)]
        begun = [frame(HEADERS, END_HEADERS, 1, call_headers(path)), *(frame(DATA, 0, 1, part) for part in parts)]
        peer.send(*begun, frame(DATA, END_STREAM, 1), call_frames(3, path, message(0, sequence_end=True)))
        assert peer.answer(3)["grpc-status"] == "0"


@pytest.mark.parametrize("goes", [False, True], ids=["its deadline passes", "its client goes"])
def test_an_end_that_nobody_waits_for_any_more_ends_its_sequence(
    engine: EngineProcess, tmp_path: Path, goes: bool
) -> None:
    def queued(rows: int) -> bool:
        line = f'\ntidegate_queued_rows{{model="sums",version="1"}} {rows}\n'
        return line.encode() in call(engine.addresses["rest"], "GET", "/metrics").body

    held, mine = tmp_path / "go", next(IDS)
    whole: dict[str, Any] = {"sequence_id": str(held), "sequence_start": True, "sequence_end": True}
    with over_grpc.InferenceServerClient(engine.addresses["grpc"]) as client, ThreadPoolExecutor(1) as pool:
        assert ask(client, over_grpc, 1, sequence_id=mine, sequence_start=True) == 1
        before = pool.submit(ask, client, over_grpc, -1, **whole)
        end: dict[str, Any] = {"sequence_id": mine, "sequence_end": True}
        try:
            eventually(held.with_name("go.entered").exists)
            if goes:
                told = client.async_infer("sums", number(over_grpc, 2), lambda result, error: None, **end)
                eventually(lambda: queued(1))
                told.cancel()
                eventually(lambda: queued(0))
            else:
                with pytest.raises(InferenceServerException, match=r"[Dd]eadline"):
                    ask(client, over_grpc, 2, client_timeout=0.3, **end)
        finally:
            held.touch()
        assert before.result(30) == -1
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            ask(client, over_grpc, 4, sequence_id=mine)


def test_over_a_stream_and_as_plain_inputs_it_is_the_same(engine: EngineProcess) -> None:
    name, came = next(IDS), queue.Queue[Any]()
    with over_grpc.InferenceServerClient(engine.addresses["grpc"]) as grpc_client:
        grpc_client.start_stream(lambda result, error: came.put(error or int(result.as_numpy("y").item())))
        for turn in range(5):
            grpc_client.async_stream_infer("sums", number(over_grpc, 2), sequence_id=name, sequence_start=turn == 0)
        assert [came.get(timeout=30) for _ in range(5)] == [2, 4, 6, 8, 10]
        grpc_client.stop_stream()
    with engine.client() as client:
        inputs = {"x": np.array([[5]]), "sequence_id": np.array(str(name).encode(), dtype=object)}
        assert client.predict("sums", inputs)["y"].item() == 15
        last = {**inputs, "sequence_end": np.array(True)}
        assert client.predict("sums", last)["y"].item() == 20


def test_a_process_that_ends_takes_its_sequences_with_it(engine: EngineProcess, tmp_path: Path) -> None:
    with over_grpc.InferenceServerClient(engine.addresses["grpc"]) as grpc_client:
        name = next(IDS)
        first = grpc_client.infer("sums", number(over_grpc, 1), sequence_id=name, sequence_start=True)
        os.kill(int(first.as_numpy("pid").item()), signal.SIGKILL)

        def answered_anew() -> bool:
            with pytest.raises(InferenceServerException) as refused:
                ask(grpc_client, over_grpc, 1, sequence_id=name)
            return "or its process ended" in str(refused.value)

        eventually(answered_anew)
        assert ask(grpc_client, over_grpc, 1, sequence_id=name, sequence_start=True) == 1


@pytest.mark.parametrize("wrong", [{"sequence_id": True}, {"sequence_id": 1, "sequence_start": "yes"}])
def test_parameters_that_say_nothing_are_refused(engine: EngineProcess, wrong: dict[str, Any]) -> None:
    body = {"parameters": wrong, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
    reply = call(engine.addresses["rest"], "POST", "/v2/models/half/infer", body)
    assert reply.status == 400
    assert any(words in reply.body.decode() for words in ("must be a whole number or a string", "must be true or"))
