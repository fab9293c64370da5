"""A client that gives up very many calls in the moment in which it began them: its connection lives on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.support.clients.http2 import (
    END_HEADERS,
    HEADERS,
    RST_STREAM,
    Http2,
    call_frames,
    call_headers,
    frame,
)
from tritonclient.grpc import service_pb2

from tidegate import Engine, TensorSpec
from tidegate_serving.config import EngineConfig

INFER = "/inference.GRPCInferenceService/ModelInfer"
CANCEL = (8).to_bytes(4)
AT_ONCE = 500


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(EngineConfig(grpc_address="127.0.0.1:0", rest_address="", control_address="")) as made:
        made.serve("m", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float32", (-1,))})
        yield made


def infer_request() -> bytes:
    request = service_pb2.ModelInferRequest(model_name="m")
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    request.raw_input_contents.append(np.ones(1, np.float32).tobytes())
    data: bytes = request.SerializeToString()
    return data


def given_up(first: int, count: int) -> bytes:
    """So many calls, each of which ends before its message."""
    streams = range(first, first + 2 * count, 2)
    block = call_headers(INFER)
    return b"".join(
        frame(HEADERS, END_HEADERS, stream, block) + frame(RST_STREAM, 0, stream, CANCEL) for stream in streams
    )


def test_a_connection_whose_calls_end_as_soon_as_they_begin_is_served_on(engine: Engine) -> None:
    last = 1 + 2 * AT_ONCE
    with Http2(engine.addresses.grpc) as connection:
        connection.send(given_up(1, AT_ONCE), call_frames(last, INFER, infer_request()))
        assert connection.answer(last)["grpc-status"] == "0"
