"""What is done to an engine by clients who mean harm, or who do not know better; each ends by itself.

`siege` runs them. Refusals are what they should get, so what the engine answers to them is not looked at here.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures

import grpc
from tests.bench.attack.models import PIXELS
from tests.support.engine_process import EngineProcess

from tidegate_serving.contract.messages import message

PREDICT = "/tensorflow.serving.PredictionService/Predict"
CLASSIFY = "/tensorflow.serving.PredictionService/Classify"
HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
MEGABYTE = 1 << 20
SECONDS = 120


def filled_tensors(engine: EngineProcess) -> None:
    """200 requests of 48 bytes whose tensors have a shape of 15 million elements and no values."""
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = "image"
    tensor = request.inputs["x"]
    tensor.dtype = 1
    for size in (100, PIXELS):
        tensor.tensor_shape.dim.add(size=size)
    _calls(engine, PREDICT, [request.SerializeToString()] * 200)


def large_bodies(engine: EngineProcess) -> None:
    """60 REST clients that send 60 MB each and go on waiting."""
    body = b'{"instances": [' + b"1.0," * (15 * MEGABYTE) + b"1.0]}"
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(_rest(engine)) for _ in range(60)]
        with futures.ThreadPoolExecutor(60) as pool:
            list(pool.map(lambda one: _send(one, _post("small", body[: 60 * MEGABYTE], len(body) + 1)), sockets))
        time.sleep(1)


def large_streams(engine: EngineProcess) -> None:
    """60 streams of 60 MB each over one gRPC connection."""
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = "small"
    request.inputs["x"].dtype = 1
    request.inputs["x"].tensor_shape.dim.add(size=15 * MEGABYTE)
    request.inputs["x"].tensor_content = bytes(60 * MEGABYTE)
    _calls(engine, PREDICT, [request.SerializeToString()] * 60)


def shared_context(engine: EngineProcess) -> None:
    """1,000 examples that share a context of 30 MB."""
    request = message("tensorflow.serving.ClassificationRequest")()
    request.model_spec.name = "small"
    listed = request.input.example_list_with_context
    listed.context.features.feature["blob"].bytes_list.value.append(bytes(30 * MEGABYTE))
    for number in range(1000):
        listed.examples.add().features.feature["x"].float_list.value.append(number)
    _calls(engine, CLASSIFY, [request.SerializeToString()] * 4)


def gzip_bombs(engine: EngineProcess) -> None:
    """Bodies of 60 kB that unpack to 60 MB."""
    packed = gzip.compress(b'{"instances": [' + b" " * (60 * MEGABYTE) + b"1.0]}")
    _posts(engine, [("small", packed, "Content-Encoding: gzip\r\n")] * 8)


def wrong_length(engine: EngineProcess) -> None:
    """Bodies of 62 MB whose one list has a wrong length at its end."""
    body = b'{"instances": [' + b"[1.0]," * (10 * MEGABYTE) + b"[1.0, 2.0]]}"
    _posts(engine, [("small", body, "")] * 4)


def escapes(engine: EngineProcess) -> None:
    """A name of a million escapes."""
    body = b'{"signature_name": "' + b"\\u0041" * MEGABYTE + b'", "instances": [1.0]}'
    _posts(engine, [("small", body, "")] * 8)


def nested(engine: EngineProcess) -> None:
    """Lists nested 254 deep that end in a mistake."""
    body = b'{"instances": [' + (b"[" * 253 + b"1.0" + b"]" * 253 + b",") * 2000 + b"]}"
    _posts(engine, [("small", body, "")] * 8)


def silent_grpc(engine: EngineProcess) -> None:
    """4,200 gRPC connections that say nothing after their preface, for ten seconds."""
    with _raised_file_limit(), contextlib.ExitStack() as held:
        for _ in range(4200):
            one = held.enter_context(contextlib.closing(socket.socket()))
            one.settimeout(2)
            with contextlib.suppress(OSError):
                one.connect(_split(engine.addresses["grpc"]))
                one.sendall(HTTP2_HELLO)
        time.sleep(10)


def slow_headers(engine: EngineProcess) -> None:
    """2,000 REST connections that send half a header, for ten seconds."""
    with _raised_file_limit(), contextlib.ExitStack() as held:
        for _ in range(2000):
            one = held.enter_context(contextlib.closing(socket.socket()))
            one.settimeout(2)
            with contextlib.suppress(OSError):
                one.connect(_split(engine.addresses["rest"]))
                one.sendall(b"POST /v1/models/small:predict HTTP/1.1\r\nHost:")
        time.sleep(10)


def unread_answers(engine: EngineProcess) -> None:
    """200 REST clients that ask for large answers and read none of them."""
    body = json.dumps({"instances": [1.0] * 200_000}).encode()
    with contextlib.ExitStack() as held:
        for _ in range(200):
            one = held.enter_context(_rest(engine))
            _send(one, _post("small", body, len(body)))
        time.sleep(5)


def slow_model(engine: EngineProcess) -> None:
    """1,500 requests at once to a model that needs a quarter of a second for each batch."""
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = "slow"
    request.inputs["x"].dtype = 1
    request.inputs["x"].tensor_shape.dim.add(size=1024)
    request.inputs["x"].tensor_content = bytes(4096)
    _calls(engine, PREDICT, [request.SerializeToString()] * 1500, timeout=8)


ATTACKS: dict[str, Callable[[EngineProcess], None]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        filled_tensors,
        large_bodies,
        large_streams,
        shared_context,
        gzip_bombs,
        wrong_length,
        escapes,
        nested,
        silent_grpc,
        slow_headers,
        unread_answers,
        slow_model,
    )
}


def _calls(engine: EngineProcess, method: str, requests: Sequence[bytes], timeout: float = SECONDS) -> None:
    """All of them at once over one connection; returns when each was answered or refused."""
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(engine.addresses["grpc"], options=options) as channel:
        call = channel.unary_unary(method, request_serializer=None, response_deserializer=None)
        futures.wait([_future(call.future(request, timeout=timeout)) for request in requests], SECONDS)


def _future(call: grpc.Future) -> futures.Future[None]:
    done: futures.Future[None] = futures.Future()
    call.add_done_callback(lambda _: done.set_result(None))
    return done


def _posts(engine: EngineProcess, requests: Sequence[tuple[str, bytes, str]]) -> None:
    """Each over a connection of its own, one after the other."""
    for model, body, headers in requests:
        with _rest(engine) as one:
            _send(one, _post(model, body, len(body), headers))
            with contextlib.suppress(OSError):
                one.recv(65536)


def _post(model: str, body: bytes, length: int, headers: str = "") -> bytes:
    head = f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{headers}\r\n"
    return head.encode() + body


def _send(one: socket.socket, data: bytes) -> None:
    """As much as the engine takes."""
    with contextlib.suppress(OSError):
        one.sendall(data)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def _rest(engine: EngineProcess) -> Iterator[socket.socket]:
    with socket.create_connection(_split(engine.addresses["rest"]), timeout=SECONDS) as one:
        yield one


@contextlib.contextmanager
def _raised_file_limit() -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
