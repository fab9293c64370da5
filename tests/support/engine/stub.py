"""An engine without Tidegate: gRPC and REST endpoints over one plain formula, for tests of clients."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import numpy as np

from tidegate_flights.features import PROBABILITY
from tidegate_serving.contract.messages import message
from tidegate_serving.tensor_proto import fill, to_array


def truth(rows: Mapping[str, np.ndarray[Any, Any]], version: int) -> np.ndarray[Any, Any]:
    """What a version of the stub model answers: a number that tells rows and versions apart."""
    return np.asarray(rows["distance"] % 97 / 100 + version / 1000, dtype=np.float64)


class StubEngine:
    """Both endpoints of an engine that answers `truth`, as versions in turn."""

    def __init__(self, versions: list[int], idle_seconds: float | None = None) -> None:
        self._idle_seconds = idle_seconds
        self.closed: list[str] = []
        self._versions, self._lock, self._asked = versions, threading.Lock(), 0
        self.request_ids: set[str] = set()
        self._grpc = grpc.server(futures.ThreadPoolExecutor(4))
        handlers: dict[str, Any] = {
            "Predict": grpc.unary_unary_rpc_method_handler(
                self._predict,
                request_deserializer=message("tensorflow.serving.PredictRequest").FromString,
                response_serializer=lambda answer: answer.SerializeToString(),
            )
        }
        service = "tensorflow.serving.PredictionService"
        self._grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self.grpc = f"127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self._rest = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.rest = f"127.0.0.1:{self._rest.server_address[1]}"
        self._grpc.start()
        threading.Thread(target=self._rest.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._grpc.stop(None).wait()
        self._rest.shutdown()
        self._rest.server_close()

    def _version(self, request_id: str) -> int:
        with self._lock:
            self._asked += 1
            self.request_ids.add(request_id)
            return self._versions[self._asked % len(self._versions)]

    def _predict(self, request: Any, context: grpc.ServicerContext) -> Any:
        inputs = {name: to_array(proto) for name, proto in request.inputs.items()}
        answer = message("tensorflow.serving.PredictResponse")()
        request_id = str(dict(context.invocation_metadata())["x-request-id"])
        version = self._version(request_id)
        answer.model_spec.name, answer.model_spec.version.value = "flights", version
        fill(answer.outputs[PROBABILITY], truth(inputs, version).astype(np.float32))
        return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = engine._idle_seconds

            def finish(self) -> None:
                super().finish()
                self.connection.close()
                engine.closed.append(self.address_string())

            def do_POST(self) -> None:
                instances = json.loads(self.rfile.read(int(self.headers["content-length"])))["instances"]
                columns = {name: np.array([row[name] for row in instances]) for name in instances[0]}
                version = engine._version(self.headers["x-request-id"])
                body = json.dumps({"predictions": truth(columns, version).tolist()}).encode()
                self.send_response(200)
                self.send_header("x-tidegate-version", str(version))
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Silent."""

        return Handler
