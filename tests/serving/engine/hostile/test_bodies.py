"""Bodies that are cheap to send and may be dear to read: each is answered soon, and what it held is given back."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support.clients.http2 import Http2, call_frames
from tests.support.clients.rest import call
from tests.support.clients.small_print import CODES
from tests.support.eventually import eventually

from tidegate import Engine, TensorSpec
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.messages import message

PREDICT = "/tensorflow.serving.PredictionService/Predict"
SOON = 60.0
MANY = 1_000_000
LEFT = 2**63


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    config = EngineConfig(grpc_address="127.0.0.1:0", rest_address="127.0.0.1:0", control_address="")
    with Engine(config) as made:
        made.serve("m", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float32")})
        made.serve("i", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "int64")})
        made.serve("s", lambda s: {"n": np.array([len(one) for one in s], np.int64)}, inputs={"s": "string"})
        yield made


@pytest.fixture(autouse=True)
def goes_on(engine: Engine) -> Iterator[None]:
    """The engine answers afterwards, and holds nothing."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON
    assert call(engine.addresses.rest, "POST", "/v1/models/m:predict", {"instances": [1.5]}).json()["predictions"] == [
        1.5
    ]
    eventually(lambda: held(engine) == 0)


def held(engine: Engine) -> float:
    page = call(engine.addresses.rest, "GET", "/metrics").body.decode()
    (line,) = [line for line in page.splitlines() if line.startswith("tidegate_request_memory_bytes ")]
    return float(line.rpartition(" ")[2])


def instances(text: bytes) -> bytes:
    return b'{"instances": [' + text + b"]}"


JSON: dict[str, tuple[str, bytes, int]] = {
    "a million digits": ("m", instances(b"1" * MANY), 400),
    "a million digits behind the point": ("m", instances(b"0." + b"0" * MANY + b"1"), 200),
    "a million digits of an integer": ("i", instances(b"1" * MANY), 400),
    "an exponent of a million digits": ("m", instances(b"1e" + b"1" * MANY), 400),
    "a small exponent of a million digits": ("m", instances(b"1e-" + b"1" * MANY), 200),
    "more than a float": ("m", instances(b"1e400"), 400),
    "less than a float": ("m", instances(b"-1e400"), 400),
    "nearly nothing": ("m", instances(b"1e-400"), 200),
    "an integer too far": ("i", instances(b"9223372036854775808"), 400),
    "a hundred thousand lists": ("m", b'{"instances": ' + b"[" * 100_000, 400),
    "a hundred thousand objects": ("m", b'{"a":' * 100_000, 400),
    "instances twice": ("m", b'{"instances": [1], "instances": [2]}', 200),
    "instances and inputs": ("m", b'{"instances": [1], "inputs": [2]}', 400),
    "a zero byte": ("m", b'{"instances": [1]}\0', 400),
    "half a surrogate": ("s", instances(b'"\\ud800"'), 400),
    "surrogates in the wrong order": ("s", instances(b'"\\udc00\\ud800"'), 400),
    "no UTF-8": ("s", instances(b'"\xff\xfe"'), 400),
    "a million empty texts": ("s", instances(b'"",' * MANY + b'""'), 200),
    "base64 that is none": ("s", instances(b'{"b64": "!"}'), 400),
    "base64 with more": ("s", instances(b'{"b64": "aa==", "b64": "aa=="}'), 400),
    "a key of a megabyte": ("m", b'{"' + b"a" * MANY + b'": 1, "instances": [1]}', 400),
    "a hundred thousand keys": (
        "m",
        b"{" + b"".join(b'"k%d": 1, ' % one for one in range(100_000)) + b'"instances": [1]}',
        200,
    ),
    "spaces": ("m", b" " * 10 * MANY + instances(b"1"), 200),
}


@pytest.mark.parametrize(("model", "body", "status"), JSON.values(), ids=JSON)
def test_json(engine: Engine, model: str, body: bytes, status: int) -> None:
    reply = call(engine.addresses.rest, "POST", f"/v1/models/{model}:predict", body)
    assert reply.status == status, reply.body[:300]
    assert status == 200 or len(reply.body) < 4000, "an error repeats little of what it is about"


def infer(size: object, data: bytes = bytes(4), shape: tuple[int, ...] = (1,)) -> tuple[bytes, int]:
    parameters = {} if size is None else {"binary_data_size": size}
    given = {"inputs": [{"name": "x", "datatype": "FP32", "shape": list(shape), "parameters": parameters}]}
    head = json.dumps(given).encode()
    return head + data, len(head)


BINARY = {
    "good": (infer(4), None, 200),
    "too few bytes": (infer(8), None, 400),
    "bytes left over": (infer(4, bytes(8)), None, 400),
    "below zero": (infer(-4), None, 400),
    "beyond 64 bits": (infer(LEFT * 2), None, 400),
    "the largest": (infer(LEFT - 1), None, 400),
    "in words": (infer("4"), None, 400),
    "not whole": (infer(4.5), None, 400),
    "without a size": (infer(None), None, 400),
    "another shape": (infer(4, shape=(2,)), None, 400),
    "a shape that overflows": (infer(4, shape=(2**62, 4)), None, 400),
    "a shape below zero": (infer(4, shape=(-1,)), None, 400),
    "a head longer than all": (infer(4), "1000000", 400),
    "a head below zero": (infer(4), "-1", 400),
    "a head in words": (infer(4), "abc", 400),
    "a head beyond 64 bits": (infer(4), str(LEFT * 2), 400),
    "no head, so that all of it is the input": (infer(4), "0", 200),
}


@pytest.mark.parametrize(("request_", "head", "status"), BINARY.values(), ids=BINARY)
def test_binary_data(engine: Engine, request_: tuple[bytes, int], head: str | None, status: int) -> None:
    body, length = request_
    told = str(length) if head is None else head
    reply = call(engine.addresses.rest, "POST", "/v2/models/m/infer", body, Inference_Header_Content_Length=told)
    assert reply.status == status or (status, reply.status) == (400, 413), reply.body[:300]


def varint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out, value = out + bytes((value % 128 + 128,)), value // 128
    return out + bytes((value,))


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(*parts: bytes, dims: tuple[int, ...] = (1,), dtype: int = 1) -> bytes:
    shape = b"".join(field(2, b"\x08" + varint(size % 2**64)) for size in dims)
    return b"\x08" + varint(dtype) + field(2, shape) + b"".join(parts)


def predict(value: bytes, model: bytes = b"m", name: bytes = b"x", more: bytes = b"") -> bytes:
    return field(1, field(1, model)) + field(2, field(1, name) + field(2, value)) + more


ONE = struct.pack("<f", 1.5)
GOOD = predict(tensor(field(4, ONE)))
GROUPS = b"\x7b" * 100_000 + b"\x7c" * 100_000
PROTOBUF: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "good": (GOOD, ("OK",)),
    "groups in groups": (GOOD + GROUPS, ("OK", "INVALID_ARGUMENT")),
    "groups that do not end": (GOOD + b"\x7b" * 100_000, ("INVALID_ARGUMENT",)),
    "a million unknown fields": (GOOD + b"\x78\x01" * MANY, ("OK",)),
    "the model a hundred thousand times": (field(1, field(1, b"m")) * 100_000 + GOOD, ("OK",)),
    "another model each time": (b"".join(field(1, field(1, b"%d" % one)) for one in range(9999)) + GOOD, ("OK",)),
    "the input a hundred thousand times": (GOOD * 20_000, ("OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")),
    "values packed and not": (predict(tensor(field(5, ONE), b"\x2d" + ONE, field(5, ONE), dims=(3,))), ("OK",)),
    "content and values": (predict(tensor(field(4, ONE), field(5, ONE))), ("OK", "INVALID_ARGUMENT")),
    "content too short": (predict(tensor(field(4, ONE[:3]))), ("INVALID_ARGUMENT",)),
    "content too long": (predict(tensor(field(4, ONE + b"\0"))), ("INVALID_ARGUMENT",)),
    "a size that overflows": (
        predict(tensor(field(4, ONE), dims=(2**62, 2**62))),
        ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"),
    ),
    "a size of 2^62": (predict(tensor(field(5, ONE), dims=(2**62,))), ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")),
    "a size below zero": (predict(tensor(field(4, ONE), dims=(-1,))), ("INVALID_ARGUMENT",)),
    "the least size": (predict(tensor(field(4, ONE), dims=(-(2**63),))), ("INVALID_ARGUMENT",)),
    "no such type": (predict(tensor(field(4, ONE), dtype=2**31 - 1)), ("INVALID_ARGUMENT", "UNIMPLEMENTED")),
    "ten thousand axes": (predict(tensor(field(4, ONE), dims=(1,) * 10_000)), ("INVALID_ARGUMENT",)),
    "ten million empty texts": (
        predict(tensor(b"\x42\0" * 10 * MANY, dims=(10 * MANY,), dtype=7), b"s", b"s"),
        ("OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"),
    ),
    "texts that were said to be many": (
        predict(tensor(b"\x42\0", dims=(2**40,), dtype=7), b"s", b"s"),
        ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"),
    ),
    "a hundred thousand outputs": (GOOD + field(3, b"y") * 100_000, ("OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")),
    "an output that is not there": (GOOD + field(3, b"z" * MANY), ("INVALID_ARGUMENT",)),
}


@pytest.mark.parametrize(("data", "codes"), PROTOBUF.values(), ids=PROTOBUF)
def test_protobuf(engine: Engine, data: bytes, codes: tuple[str, ...]) -> None:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(engine.addresses.grpc, options=options) as channel:
        ask: Any = channel.unary_unary(PREDICT)
        try:
            answer, code, said = ask(data, timeout=SOON), "OK", ""
        except grpc.RpcError as refused:
            code, said = refused.code().name, refused.details() or ""
    assert code in codes, said[:300]
    assert len(said) < 4000, "an error repeats little of what it is about"
    if code == "OK":
        message("tensorflow.serving.PredictResponse").FromString(answer)


HEADERS = {
    "a timeout of nothing": (("grpc-timeout", "0n"), ("DEADLINE_EXCEEDED", "OK")),
    "a timeout of three thousand years": (("grpc-timeout", "99999999H"), ("OK",)),
    "a trace that is none": (("traceparent", "00-" + "g" * 32 + "-0-01"), ("OK",)),
    "a trace of zeros": (("traceparent", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"), ("OK",)),
    "a long trace": (("traceparent", "f" * 8000), ("OK",)),
    "much baggage": (("baggage", "a=b," * 2000), ("OK",)),
    "bytes that are no text": (("traceparent-bin", b"\xff" * 100), ("OK",)),
}


@pytest.mark.parametrize(("header", "codes"), HEADERS.values(), ids=HEADERS)
def test_headers(engine: Engine, header: tuple[str, Any], codes: tuple[str, ...]) -> None:
    name, value = header
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    with Http2(engine.addresses.grpc) as connection:
        connection.send(call_frames(1, PREDICT, GOOD, {name: text}))
        assert CODES[connection.answer(1)["grpc-status"]] in codes


@pytest.mark.parametrize("verb", ["systemsharedmemory", "cudasharedmemory"])
def test_memory_of_the_client_is_not_asked_for(engine: Engine, verb: str) -> None:
    body = json.dumps({"key": "/../../etc/passwd", "offset": -1, "byte_size": LEFT}).encode()
    reply = call(engine.addresses.rest, "POST", f"/v2/{verb}/region/x/register", body)
    assert reply.status in (400, 501), reply.body
    reply = call(engine.addresses.rest, "GET", f"/v2/{verb}/status")
    assert (reply.status, reply.body) == (200, b"[]")
