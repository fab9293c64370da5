"""A connection on which very many calls are given up as they begin goes on: it may be a router's, of many clients."""

from __future__ import annotations

from tests.bench.attack.wire import PREDICT, predict_request
from tests.support.clients.http2 import RST_STREAM, Http2, call_frames, frame

from tidegate import Engine, TensorSpec
from tidegate_serving.config import EngineConfig

CALLS = 500
CANCEL = (8).to_bytes(4, "big")


def test_calls_that_are_given_up_before_they_are_looked_at_do_not_end_the_connection() -> None:
    anywhere = EngineConfig(grpc_address="127.0.0.1:0", rest_address="", control_address="")
    with Engine(anywhere) as engine:
        engine.serve("m", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float32", (-1,))})
        assert engine.addresses.grpc is not None
        request, last = predict_request("m", (1,), bytes(4)), 2 * CALLS + 1
        with Http2(engine.addresses.grpc) as connection:
            begun = ((stream, call_frames(stream, PREDICT, request)) for stream in range(1, last, 2))
            connection.send(*(call + frame(RST_STREAM, 0, stream, CANCEL) for stream, call in begun))
            connection.send(call_frames(last, PREDICT, request))
            assert connection.answer(last).get("grpc-status") == "0"
