"""Names that nobody has, however many and whatever is in them: each is refused, and nothing of them stays."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from tests.support.clients import rest
from tests.support.eventually import eventually

from tidegate import Engine, TensorSpec
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.messages import message
from tidegate_serving.probing.state import resident_bytes

MANY = 20_000
PREDICT = "/tensorflow.serving.PredictionService/Predict"
REFUSED = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
ODD = {
    "parent": "..",
    "up": "../../etc/passwd",
    "empty": "",
    "zero byte": "m\0",
    "line": 'm"} 1\nevil{model="m',
    "return": "m\r\nevil: 1",
    "digits of another script": "\u0661",
    "right to left": "\u202em",
    "astral": "\U0001f30a" * 10,
    "long": "m" * 60_000,
    "backslash": "m\\",
    "combining": "m\u0301" * 1000,
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    config = EngineConfig(grpc_address="127.0.0.1:0", rest_address="127.0.0.1:0", control_address="")
    with Engine(config) as made:
        made.serve("m", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float32")})
        yield made


@pytest.fixture(scope="module")
def call(engine: Engine) -> Iterator[Any]:
    with grpc.insecure_channel(engine.addresses.grpc) as channel:
        yield channel.unary_unary(PREDICT)


def request(name: str, signature: str = "", label: str = "") -> bytes:
    made = message("tensorflow.serving.PredictRequest")()
    made.model_spec.name, made.model_spec.signature_name = name, signature
    if label:
        made.model_spec.version_label = label
    made.inputs["x"].dtype = 1
    made.inputs["x"].tensor_shape.dim.add(size=1)
    made.inputs["x"].tensor_content = bytes(4)
    return bytes(made.SerializeToString())


def quoted(name: str) -> str:
    return "".join(f"%{byte:02X}" for byte in name.encode())


def metrics(engine: Engine) -> list[str]:
    """The lines that name a model; those of requests that found none have an empty name."""
    page = rest.call(engine.addresses.rest, "GET", "/metrics").body.decode()
    return [line for line in page.splitlines() if "model=" in line and 'model=""' not in line]


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
def test_an_odd_name_is_refused_and_in_no_metric(engine: Engine, call: Any, name: str) -> None:
    for data in (request(name), request("m", signature=name or "nobody"), request("m", label=name or "nobody")):
        with pytest.raises(grpc.RpcError) as refused:
            call(data, timeout=60)
        assert refused.value.code() in REFUSED
        assert len(refused.value.details() or "") < 4000, "what is told of it is bounded"
    for path in (f"models/{quoted(name)}", f"models/m/labels/{quoted(name)}", f"models/m/versions/{quoted(name)}"):
        if len(path) < 20_000:
            reply = rest.call(engine.addresses.rest, "POST", f"/v1/{path}:predict", {"instances": [1]})
            assert reply.status in (400, 404, 405), reply.body
            assert "evil" not in reply.headers
            json.loads(reply.body)
    assert all('model="m"' in line for line in metrics(engine))


def test_a_path_that_does_not_end_is_given_up(engine: Engine) -> None:
    host, _, port = engine.addresses.rest.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as one:
        one.settimeout(60)
        try:
            for _ in range(1000):
                one.sendall(b"GET /" + b"a" * 65536)
            said = b""
        except ConnectionError:
            said = b"HTTP/1.1 414 "
        said = said or one.recv(100)
    assert said.split()[1] in (b"400", b"414", b"431")


def test_very_many_names_leave_nothing(engine: Engine, call: Any) -> None:
    before = len(metrics(engine))

    def ask(numbers: range) -> None:
        waiting = [
            call.future(request(*names), timeout=60)
            for number in numbers
            for names in ((f"n{number}",), ("m", f"s{number}"), ("m", "", f"l{number}"))
        ]
        assert all(one.code() is not grpc.StatusCode.OK for one in waiting)

    ask(range(500))
    held = resident_bytes()
    for first in itertools.islice(itertools.count(500, 500), MANY // 500):
        ask(range(first, first + 500))
    eventually(lambda: resident_bytes() - held < 8 << 20)
    assert len(metrics(engine)) == before
