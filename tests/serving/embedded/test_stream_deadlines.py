"""How long streams are waited for: as long as their clients say, else each message by itself, of copies too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.clients.rest import call
from tests.support.clients.triton import TritonStream

from tidegate import Engine
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.desired_state import Shadow
from tidegate_serving.inference_log.reader import connect

INPUTS = {"n": ("int64", ())}
OUTPUTS = {"i": ("int64", ())}
PAUSE = 0.28
SILENT = EngineConfig(grpc_address="", rest_address="", control_address="", allow_unverified=True, isolation="engine")


def count(n: Any) -> Iterator[dict[str, int]]:
    for i in range(int(n)):
        yield {"i": i}
        time.sleep(PAUSE)


def test_a_timeout_of_open_inference_is_for_all_of_a_stream() -> None:
    with Engine(replace(SILENT, grpc_address="127.0.0.1:0", rest_address="127.0.0.1:0")) as engine:
        engine.serve("m", count, inputs=INPUTS, outputs=OUTPUTS)
        with closing(TritonStream(str(engine.addresses.grpc))) as stream:
            stream.ask("m", {"n": np.array(6)}, timeout=400_000, request_id="late")
            stream.ask("m", {"n": np.array(0)}, request_id="next", enable_empty_final_response=True)
            with pytest.raises(Exception, match="the deadline passed while the request ran"):
                all(stream.next().get_response().id == "late" for _ in range(6))
        asked = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [6]}]}
        body = {**asked, "parameters": {"timeout": 400_000}}
        told = call(str(engine.addresses.rest), "POST", "/v2/models/m/infer", body, accept="text/event-stream")
        assert b'event: error\ndata: {"error":"the deadline passed while the request ran' in told.body


def test_the_log_tells_of_long_streams_as_their_clients_saw_them(tmp_path: Path) -> None:
    with Engine(replace(SILENT, request_timeout_seconds=3 * PAUSE - 0.04, log_path=tmp_path)) as engine:
        for _ in range(2):
            engine.serve("m", count, inputs=INPUTS, outputs=OUTPUTS, keep=True)
        engine.traffic.set_labels("m", {"stable": 1})
        with closing(engine.stream("m", {"n": 5})) as left:
            assert [int(next(left)["i"]) for _ in range(4)] == [0, 1, 2, 3], "beyond the limit for one message"
        engine.traffic.set_shadow("m", Shadow(2, 1.0))
        assert len(list(engine.stream("m", {"n": 4}))) == 4
    with connect(tmp_path) as log:
        rows = log.execute('SELECT role, "in.n", "out.i", status FROM log ORDER BY role').fetchall()
    assert rows == [("primary", 4, 3, 0), ("shadow", 4, 3, 0)], "one that is left is not logged, as any"
