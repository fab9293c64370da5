"""Several requests of one `ModelStreamInfer` call are under way at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import grpc
import numpy as np
import pytest
from tests.support.clients.rest import call
from tests.support.clients.triton import TritonStream
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.gate import AT_PREDICT, Gate
from tests.support.models.versions import Draft, adding, publish
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec

COUNT = """
class Model:
    def predict(self, inputs):
        for i in range(int(inputs["n"])):
            yield {"i": i}
"""
COUNTS = Signature(
    (TensorSpec("n", "int64", ()),), (TensorSpec("i", "int64", ()),), first_axis=FirstAxis.FREE, streaming=True
)
BATCH = """
import numpy as np

class Model:
    def predict(self, inputs):
        if inputs["x"][0] == 666:
            open({entered!r}, "w").close()
            open({pipe!r}, "rb").read()
        return {{"y": np.full_like(inputs["x"], len(inputs["x"]))}}
"""


@pytest.fixture(scope="module")
def gate_of_all(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    return Gate.make(tmp_path_factory.mktemp("gate") / "pipe")


@pytest.fixture
def gate(gate_of_all: Gate) -> Gate:
    """Where nobody waits yet."""
    gate_of_all.entered.unlink(missing_ok=True)
    return gate_of_all


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, gate_of_all: Gate) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("streams")
    models = {
        "batch": Draft(files={"model.py": gate_of_all.source(BATCH, 0)}),
        "waits": Draft(files={"model.py": gate_of_all.source(AT_PREDICT, 1)}),
        "adds": adding(2),
        "count": Draft(files={"model.py": COUNT}, signature=COUNTS, example={"n": 2}),
    }
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True) as running:
        with running.control() as control:
            for name, draft in models.items():
                push_and_wait(control, publish(folder / "r", name, 1, draft))
        yield running


@pytest.fixture
def stream(engine: EngineProcess) -> Iterator[TritonStream]:
    with closing(TritonStream(engine.addresses["grpc"])) as made:
        yield made


def x(*values: float) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return {"x": np.array(values, np.float32)}


def test_what_waits_behind_a_request_shares_a_batch(engine: EngineProcess, stream: TritonStream, gate: Gate) -> None:
    queued = b'\ntidegate_queued_rows{model="batch",version="1"} 8\n'
    stream.ask("batch", x(666))
    eventually(gate.entered.exists)
    for value in range(8):
        stream.ask("batch", x(value))
    stream.ask("adds", x(1))
    eventually(lambda: queued in call(engine.addresses["rest"], "GET", "/metrics").body)
    gate.open()
    sizes = [int(stream.next().as_numpy("y")[0]) for _ in range(9)]
    assert sizes == [1] + [8] * 8
    assert stream.next().as_numpy("y").tolist() == [3]


def test_answers_come_in_order_and_messages_as_they_are_made(stream: TritonStream, gate: Gate) -> None:
    stream.ask("waits", x(666), request_id="first")
    eventually(gate.entered.exists)
    stream.ask("adds", x(1), request_id="second")
    stream.ask("none", x(1), request_id="third")
    stream.ask("count", {"n": np.array(50)}, request_id="streams")
    assert [int(stream.next().as_numpy("i")) for _ in range(50)] == list(range(50))
    gate.open()
    assert [stream.next().get_response().id for _ in range(2)] == ["first", "second"]
    with pytest.raises(InferenceServerException, match="none"):
        stream.next()


def test_one_call_has_a_bounded_number_of_requests_under_way(
    engine: EngineProcess, stream: TritonStream, gate: Gate
) -> None:
    stream.ask("waits", x(666))
    eventually(gate.entered.exists)
    for value in range(100):
        stream.ask("count", {"n": np.array(0)}, request_id=str(value))
        stream.ask("adds", x(value))
    gate.open()
    assert stream.next().as_numpy("y").tolist() == [667]
    assert [stream.next().as_numpy("y").tolist() for _ in range(100)] == [[value + 2.0] for value in range(100)]


def test_a_client_that_hangs_up_leaves_nothing_behind(engine: EngineProcess, stream: TritonStream, gate: Gate) -> None:
    stream.ask("waits", x(666))
    eventually(gate.entered.exists)
    for _ in range(20):
        stream.ask("count", {"n": np.array(1000)})
    stream.hang_up()
    gate.open()
    with closing(TritonStream(engine.addresses["grpc"])) as other:
        other.ask("count", {"n": np.array(1)})
        assert other.next().as_numpy("i") == 0


def test_what_cannot_be_read_says_which_request_it_was(engine: EngineProcess) -> None:
    request = service_pb2.ModelInferRequest(model_name="adds", id="q")
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    request.inputs[0].parameters["shared_memory_region"].string_param = "nowhere"
    request.inputs[0].parameters["shared_memory_byte_size"].int64_param = 4
    with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        ask = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer
        (answer,) = ask(iter([request]), timeout=60)
    assert "shared" in answer.error_message
    assert answer.infer_response.id == "q"
