"""What attackers share: where the engine is, requests as bytes, and sockets that give up when the engine does."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import grpc

from tidegate_serving.contract.messages import message

PREDICT = "/tensorflow.serving.PredictionService/Predict"
CLASSIFY = "/tensorflow.serving.PredictionService/Classify"
MEGABYTE = 1 << 20
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """The engine's addresses, and until when it is attacked, on the clock of `time.monotonic`."""

    grpc: str
    rest: str
    until: float

    def left(self) -> float:
        """Seconds that are left, at least one."""
        return max(1.0, self.until - time.monotonic())


def predict_request(model: str, shape: Sequence[int], content: bytes) -> bytes:
    """A PredictRequest of one float tensor `x`; without content its values are missing."""
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = model
    tensor = request.inputs["x"]
    tensor.dtype = 1
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = content
    return bytes(request.SerializeToString())


def calls(target: Target, method: str, requests: Sequence[bytes], timeout: float = SECONDS) -> dict[str, int]:
    """All of them at once over one connection; how many were answered with which code."""
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    codes: dict[str, int] = {}
    with grpc.insecure_channel(target.grpc, options=options) as channel:
        call: Any = channel.unary_unary(method, request_serializer=None, response_deserializer=None)
        waiting = [call.future(request, timeout=timeout) for request in requests]
        for one in waiting:
            with contextlib.suppress(grpc.RpcError, grpc.FutureTimeoutError):
                one.exception(timeout=timeout + 5)
            name = one.code().name if one.done() else "SILENCE"
            codes[name] = codes.get(name, 0) + 1
    return codes


def post(model: str, body: bytes, headers: str = "", more: int = 0) -> bytes:
    """A predict request by REST; `more` bytes are promised beyond the body."""
    head = f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body) + more}\r\n{headers}\r\n"
    return head.encode() + body


def exchange(target: Target, data: bytes) -> None:
    """Sends it over a connection of its own and reads the first of the answer."""
    with contextlib.suppress(OSError), rest(target) as one:
        one.sendall(data)
        one.recv(65536)


def send(one: socket.socket, data: bytes) -> None:
    """As much as the engine takes."""
    with contextlib.suppress(OSError):
        one.sendall(data)


def rest(target: Target) -> socket.socket:
    """A connection to the REST endpoint."""
    return connect(target.rest)


def connect(address: str, seconds: float = SECONDS) -> socket.socket:
    """A connection, if the engine still takes one."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=seconds)


@contextlib.contextmanager
def held(address: str, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that have sent this and wait; as many as the engine takes."""
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                one = stack.enter_context(connect(address, 5))
                one.sendall(first)
                sockets.append(one)
        yield sockets


def still_open(sockets: Sequence[socket.socket]) -> int:
    """How many of them the engine has not closed."""
    count = 0
    for one in sockets:
        one.setblocking(False)
        try:
            while one.recv(65536):
                pass
        except BlockingIOError:
            count += 1
        except OSError:
            continue
    return count


def all_at_once(target: Target, data: bytes, count: int) -> None:
    """Sends it over so many connections of their own at the same time, then waits a second and leaves."""
    with contextlib.ExitStack() as stack, futures.ThreadPoolExecutor(count) as pool:
        sockets = [stack.enter_context(rest(target)) for _ in range(count)]
        futures.wait([pool.submit(send, one, data) for one in sockets], target.left())
        time.sleep(1)
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
