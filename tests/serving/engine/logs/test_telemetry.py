"""The access log and traces of a running engine: what a request is told as, by its clients' own ids."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tests.support.clients.rest import call
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish
from tests.support.neighbours.trace_collector import TraceCollector, trace_collector

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import InvalidInput

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
CALLER = "00f067aa0ba902b7"
FAILS = """
class Model:
    def predict(self, inputs):
        if float(inputs["x"][0]) < 0:
            raise ValueError("below zero")
        return {"y": inputs["x"]}
"""
STAGES = ["read", "decode", "queue", "run", "encode"]


def traceparent(sampled: bool) -> str:
    return f"00-{TRACE}-{CALLER}-{int(sampled):02x}"


@pytest.fixture
def collector() -> Iterator[TraceCollector]:
    with trace_collector() as running:
        yield running


def engine_with(folder: Path, **values: Any) -> EngineProcess:
    return EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True, **values)


def serve_model(engine: EngineProcess, folder: Path) -> str:
    path = publish(folder / "r", "m", 3, Draft(files={"model.py": FAILS}))
    with engine.control() as control:
        push_and_wait(control, path)
    return str(engine.addresses["rest"])


def predict(rest: str, value: float, **headers: str) -> int:
    return call(rest, "POST", "/v1/models/m:predict", {"instances": [value]}, **headers).status


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_request_is_in_the_access_log_with_its_trace(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    with engine_with(tmp_path, access_log_path=log) as engine:
        rest = serve_model(engine, tmp_path)
        assert predict(rest, 2.0, x_request_id='a "quoted" id', traceparent=traceparent(False)) == 200
        assert predict(rest, -2.0) == 500
        with engine.client() as client:
            client.predict("m", {"x": np.array([1, 2, 3], np.float32)}, request_id="over-grpc")
        eventually(lambda: len(lines(log)) >= 3)
    first, failed, over_grpc = lines(log)
    assert (first["request_id"], first["trace_id"]) == ('a "quoted" id', TRACE)
    assert (first["model"], first["version"], first["signature"], first["rows"]) == ("m", 3, "serving_default", 1)
    assert (first["protocol"], first["status"], first["http_status"]) == ("rest", "OK", 200)
    assert first["total_us"] >= first["decode_us"] + first["queue_us"] + first["run_us"] + first["encode_us"] > 0
    assert (failed["status"], failed["http_status"]) == ("INTERNAL", 500)
    assert (over_grpc["protocol"], over_grpc["rows"], over_grpc["request_id"]) == ("grpc", 3, "over-grpc")
    assert over_grpc["peer"].startswith("127.0.0.1:")
    assert "http_status" not in over_grpc


def test_what_a_full_disk_leaves_of_a_line_is_no_part_of_the_next(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    with engine_with(tmp_path, access_log_path=log) as engine:
        rest = serve_model(engine, tmp_path)
        assert predict(rest, 2.0) == 200
        eventually(lambda: log.stat().st_size)
        assert engine.process is not None
        full, pid = log.stat().st_size + 20, engine.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (full, hard))
        assert predict(rest, 2.0, x_request_id="lost") == 200
        eventually(lambda: log.stat().st_size == full)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
        assert predict(rest, 2.0, x_request_id="kept") == 200
        eventually(lambda: log.read_text().count("\n") == 3)
    whole, cut, after = log.read_text().splitlines()
    assert (json.loads(whole)["status"], len(cut), json.loads(after)["request_id"]) == ("OK", 20, "kept")


def test_lines_go_to_standard_error_and_of_slow_requests_alone(tmp_path: Path) -> None:
    slow = {"access_log_path": "-", "access_log_sampling_rate": 0.0, "slow_request_seconds": 0.000001}
    with engine_with(tmp_path, **slow) as engine:
        rest = serve_model(engine, tmp_path)
        assert predict(rest, 2.0, x_request_id="slow-one") == 200
        eventually(lambda: "slow-one" in engine.said())
    (line,) = (json.loads(line) for line in engine.said().splitlines() if "slow-one" in line)
    assert line["slow"] is True
    assert line["status"] == "OK"


def test_a_collector_gets_a_span_for_the_request_and_one_for_each_stage(
    tmp_path: Path, collector: TraceCollector
) -> None:
    with engine_with(tmp_path, trace_endpoint=collector.url, trace_sampling_rate=0.0) as engine:
        rest = serve_model(engine, tmp_path)
        assert predict(rest, 1.0) == 200
        assert predict(rest, 1.0, traceparent=traceparent(False)) == 200
        answer = call(rest, "POST", "/v1/models/m:predict", {"instances": [2.0, 3.0]}, traceparent=traceparent(True))
        with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PREDICT)
            with pytest.raises(grpc.RpcError):
                method(b"\xff", metadata=(("traceparent", traceparent(True)),))
        eventually(lambda: len(collector.spans()) >= 8)
        # They are counted once the collector has answered.
        exported = "tidegate_traces_exported_total 2"
        eventually(lambda: exported in call(rest, "GET", "/metrics").body.decode())
        metrics = call(rest, "GET", "/metrics").body.decode()
    spans = collector.spans()
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    assert collector.services == {"tidegate"}
    servers = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    assert [span.name for span in servers] == [
        "POST /v1/models/m:predict",
        "tensorflow.serving.PredictionService/Predict",
    ]
    asked, broken = servers
    assert answer.headers["traceparent"] == f"00-{TRACE}-{asked.span_id.hex()}-01"
    assert {span.parent_span_id.hex() for span in servers} == {CALLER}
    told = {pair.key: pair.value for pair in asked.attributes}
    assert (told["tidegate.model"].string_value, told["tidegate.version"].int_value) == ("m", 3)
    assert (told["tidegate.rows"].int_value, told["http.response.status_code"].int_value) == (2, 200)
    children = [span for span in spans if span.parent_span_id == asked.span_id]
    assert [span.name for span in children] == STAGES
    assert len({span.span_id for span in spans}) == len(spans)
    edges = [asked.start_time_unix_nano, *(child.end_time_unix_nano for child in children)]
    assert edges == sorted(edges)
    assert edges[-1] == asked.end_time_unix_nano
    assert asked.status.code == Status.STATUS_CODE_UNSET
    assert {pair.key: pair.value for pair in broken.attributes}["rpc.grpc.status_code"].int_value == 3
    assert "tidegate_traces_dropped_total 0" in metrics


def test_a_collector_that_takes_nothing_keeps_nobody_waiting(tmp_path: Path, collector: TraceCollector) -> None:
    collector.status = 400
    with engine_with(tmp_path, trace_endpoint=collector.url) as engine:
        rest = serve_model(engine, tmp_path)
        assert predict(rest, 1.0) == 200
        assert collector.asked.wait(20)
        dropped = "tidegate_traces_dropped_total 1"
        eventually(lambda: dropped in call(rest, "GET", "/metrics").body.decode())
        with engine.control() as control:
            eventually(lambda: any(collector.url in told.error_message for told in control.status("").problems))
    assert engine.process is None or engine.process.returncode == 0


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInput, match="slow_request_seconds is 1 without access_log_path"):
        EngineConfig(slow_request_seconds=1.0)
    with pytest.raises(InvalidInput, match="trace_endpoint is 'collector:4317'"):
        EngineConfig(trace_endpoint="collector:4317")
    with pytest.raises(InvalidInput, match="access_log_sampling_rate"):
        EngineConfig(access_log_sampling_rate=2.0)
