"""Infer requests that lie about what they hold: each is answered at once with what is wrong, and the engine goes on."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support.clients import rest
from tests.support.eventually import eventually
from tritonclient.grpc import service_pb2

from tidegate import Engine, TensorSpec
from tidegate_serving.config import EngineConfig

SERVICE = "/inference.GRPCInferenceService"
ONES = np.ones(3, np.float32).tobytes()
HUGE = 2**62
MUTATIONS = 1500


def counts(n: Any) -> Iterator[dict[str, int]]:
    for i in range(int(n)):
        yield {"i": i}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """All that is answered is logged, too."""
    anywhere = EngineConfig(
        grpc_address="127.0.0.1:0",
        rest_address="127.0.0.1:0",
        control_address="",
        log_path=tmp_path_factory.mktemp("log"),
        log_sampling_rate=1.0,
        log_block_seconds=0.05,
    )
    with Engine(anywhere) as made:
        made.serve("m", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float32", (-1, 3))})
        made.serve("d", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float64", (-1, -1))})
        made.serve("deep", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float32", (-1, -1, -1, -1))})
        made.serve("s", lambda s: {"t": s}, inputs={"s": "string"})
        made.serve("n", counts, inputs={"n": ("int64", ())}, outputs={"i": ("int64", ())})
        yield made


@pytest.fixture(scope="module")
def channel(engine: Engine) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(engine.addresses.grpc) as made:
        yield made


@pytest.fixture(scope="module")
def ask(channel: grpc.Channel) -> Callable[[bytes], tuple[str, Any]]:
    """Sends any bytes as a ModelInferRequest: OK and the answer, or the code and the text of the refusal."""
    call: Any = channel.unary_unary(f"{SERVICE}/ModelInfer")

    def send(message: bytes) -> tuple[str, Any]:
        try:
            return "OK", service_pb2.ModelInferResponse.FromString(call(message, timeout=60))
        except grpc.RpcError as refused:
            return refused.code().name, refused.details()

    return send


def infer(
    shape: list[int],
    data: bytes,
    model: str = "m",
    tensor: tuple[str, str] = ("x", "FP32"),
    outputs: tuple[tuple[str, int], ...] = (),
    **parameters: int | str,
) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[data])
    request.inputs.add(name=tensor[0], datatype=tensor[1], shape=shape)
    for name, count in outputs:
        request.outputs.add(name=name).parameters["classification"].int64_param = count
    for key, value in parameters.items():
        if isinstance(value, str):
            request.parameters[key].string_param = value
        else:
            request.parameters[key].int64_param = value
    message: bytes = request.SerializeToString()
    return message


def many(field: str, count: int = 20_000) -> bytes:
    request = service_pb2.ModelInferRequest(model_name="m")
    for _ in range(count):
        getattr(request, field).add(name="x")
    message: bytes = request.SerializeToString()
    return message


def text(data: bytes, shape: int = 1) -> bytes:
    return infer([shape], data, "s", ("s", "BYTES"))


DOUBLE = ("x", "FP64")
WRONG = {
    "too few bytes": (infer([2, 3], ONES), "INVALID_ARGUMENT", "has 12 bytes, but shape [2,3] of FP32 needs 24"),
    "too many bytes": (infer([1, 3], ONES * 2), "INVALID_ARGUMENT", "has 24 bytes, but shape [1,3] of FP32 needs 12"),
    "a size below zero": (infer([-1, 3], ONES), "INVALID_ARGUMENT", "has a dimension of size -1"),
    "a size that overflows": (
        infer([HUGE, HUGE], b"", "d", DOUBLE),
        "RESOURCE_EXHAUSTED",
        "would take more than the limit",
    ),
    "more than fits": (infer([2**40, 3], ONES), "RESOURCE_EXHAUSTED", "would take more than the limit"),
    "rows of nothing": (
        infer([2**50, 0], b"", "d", DOUBLE),
        "INVALID_ARGUMENT",
        "lists without an element: send at most",
    ),
    "lists of nothing": (infer([1, 2**40, 0, 1], b"", "deep"), "INVALID_ARGUMENT", "has 1099511627776 lists without"),
    "too many axes": (infer([1] * 1000, ONES), "INVALID_ARGUMENT", "more than 254 dimensions"),
    "a text of 4 GiB": (text(b"\xff\xff\xff\xff"), "INVALID_ARGUMENT", "one that ends too early"),
    "a text that ends early": (text(b"\x05\0\0\0ab"), "INVALID_ARGUMENT", "one that ends too early"),
    "half a length": (text(b"\0\0\0"), "INVALID_ARGUMENT", "has 0 byte strings at most"),
    "a text too many": (text(b"\x01\0\0\0a\x01\0\0\0b"), "INVALID_ARGUMENT", "has 1 byte strings and more"),
    "texts that never came": (text(b"\0" * 40, 2**31), "RESOURCE_EXHAUSTED", "would take more than the limit"),
    "labels below zero": (
        infer([1, 3], ONES, outputs=(("y", -1),)),
        "INVALID_ARGUMENT",
        "must be a whole number of labels",
    ),
    "an output twice": (infer([1, 3], ONES, outputs=(("y", 1), ("y", 2))), "INVALID_ARGUMENT", "is asked for twice"),
    "too many outputs": (many("outputs"), "RESOURCE_EXHAUSTED", "more than 16384 outputs"),
    "too many inputs": (many("inputs"), "RESOURCE_EXHAUSTED", "more than 16384 inputs"),
    "a timeout below zero": (infer([1, 3], ONES, timeout=-1), "INVALID_ARGUMENT", "a whole number of microseconds"),
    "a timeout in words": (infer([1, 3], ONES, timeout="5"), "INVALID_ARGUMENT", "a whole number of microseconds"),
    "no message": (b"\xff" * 20, "INVALID_ARGUMENT", "malformed protobuf"),
    "a field that ends early": (b"\x0a\xff\xff\xff\xff\x0f", "INVALID_ARGUMENT", "malformed protobuf"),
}


@pytest.mark.parametrize(("message", "code", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_at_once(ask: Any, message: bytes, code: str, words: str) -> None:
    found, why = ask(message)
    assert (found, words in why) == (code, True), why
    assert ask(infer([1, 3], ONES))[0] == "OK"


def test_shapes_of_nothing_are_answered(engine: Engine, ask: Any) -> None:
    for shape in itertools.product((0, 1, 2**40), repeat=4):
        if 0 in shape:
            code, found = ask(infer(list(shape), b"", "deep"))
            lists = np.prod([float(size) for size in shape[: shape.index(0)]])
            fits = shape[0] == 0 or (lists <= 1 and shape.count(2**40) < 2)
            assert code == "OK" if fits else code in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"), (shape, found)
    assert ask(infer([1, 1, 1, 1], ONES[:4], "deep"))[0] == "OK"
    eventually(lambda: sample(engine, "tidegate_request_memory_bytes") == 0)


@pytest.mark.parametrize("count", [1, 5, 2**31, HUGE])
def test_many_labels_of_much_are_as_many_as_there_are_values(ask: Any, count: int) -> None:
    values = np.full((100, 500), 1e308)
    code, answer = ask(infer([100, 500], values.tobytes(), "d", DOUBLE, (("y", count),)))
    assert code == "OK"
    assert list(answer.outputs[0].shape) == [100, min(count, 500)]
    raw = answer.raw_output_contents[0]
    assert len(raw) < 4 * values.nbytes
    (length,) = struct.unpack_from("<I", raw)
    assert raw[4 : 4 + length] == b"1e308:0"


def test_whatever_is_changed_in_a_request_is_answered(engine: Engine, ask: Any) -> None:
    good = infer([1, 3], ONES, outputs=(("y", 2),), timeout=5_000_000, priority=1)
    chance = random.Random(15)
    codes = {ask(changed(good, chance))[0] for _ in range(MUTATIONS)}
    assert codes <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "DEADLINE_EXCEEDED"}
    assert {"OK", "INVALID_ARGUMENT"} <= codes
    assert ask(good)[0] == "OK"
    eventually(lambda: sample(engine, "tidegate_request_memory_bytes") == 0)


def changed(message: bytes, chance: random.Random) -> bytes:
    data = bytearray(message)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at]
            case _:
                data.insert(at, chance.randrange(256))
    return bytes(data)


def test_hostile_messages_of_a_stream_are_answered_among_good_ones(channel: grpc.Channel) -> None:
    call: Any = channel.stream_stream(f"{SERVICE}/ModelStreamInfer")
    sent = [message for message, _, _ in WRONG.values()]
    both = [one for wrong in sent for one in (wrong, infer([1, 3], ONES))]
    answers = [service_pb2.ModelStreamInferResponse.FromString(one) for one in call(iter(both), timeout=60)]
    assert len(answers) == len(both)
    for wrong, good in zip(answers[::2], answers[1::2], strict=True):
        assert wrong.error_message
        assert not good.error_message
        assert list(good.infer_response.raw_output_contents) == [ONES]


def test_a_stream_without_end_ends_with_its_client(engine: Engine, channel: grpc.Channel) -> None:
    call: Any = channel.stream_stream(f"{SERVICE}/ModelStreamInfer")
    endless = infer([], struct.pack("<q", HUGE), "n", ("n", "INT64"))
    answers = call(iter([endless]), timeout=60)
    for number, answer in zip(range(100), answers, strict=False):
        found = service_pb2.ModelStreamInferResponse.FromString(answer)
        assert found.infer_response.raw_output_contents[0] == struct.pack("<q", number)
    answers.cancel()
    eventually(lambda: sample(engine, "tidegate_request_memory_bytes") == 0)
    short = infer([], struct.pack("<q", 2), "n", ("n", "INT64"))
    assert len(list(call(iter([short]), timeout=60))) == 2, "its model runs for others"


def sample(engine: Engine, name: str) -> float:
    page = rest.call(engine.addresses.rest, "GET", "/metrics").body.decode()
    (line,) = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])
