"""An OpenTelemetry collector: takes spans over HTTP as its protocol says, and keeps them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.support.neighbours.http_server import http_server


class TraceCollector:
    """What came so far. `status` is what it answers; other than 200 it keeps nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self.services: set[str] = set()
        self.status = 200
        self.asked = threading.Event()
        self.url = ""

    def take(self, request: ExportTraceServiceRequest) -> None:
        with self._lock:
            for group in request.resource_spans:
                named = {pair.key: pair.value.string_value for pair in group.resource.attributes}
                self.services.add(named["service.name"])
                for scope in group.scope_spans:
                    self._spans.extend(scope.spans)

    def spans(self) -> list[Span]:
        with self._lock:
            return list(self._spans)

    def of_trace(self, trace_id: str) -> list[Span]:
        return [span for span in self.spans() if span.trace_id.hex() == trace_id]


@contextmanager
def trace_collector() -> Iterator[TraceCollector]:
    """One that runs."""
    collector = TraceCollector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            if collector.status == 200:
                collector.take(ExportTraceServiceRequest.FromString(plain))
            collector.asked.set()
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(collector.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    with http_server(Handler) as address:
        collector.url = f"http://{address}/v1/traces"
        yield collector
