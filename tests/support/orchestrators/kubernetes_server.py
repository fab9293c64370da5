"""A small Kubernetes API by HTTPS that keeps InferenceServices: merges patches (RFC 7386) and checks what comes of it.

The schema is the part of KServe's v1beta1 definition that a service with one model needs; like the real one it refuses
what is of another type.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
from tests.support.neighbours.certificates import Pair
from tests.support.neighbours.http_server import http_server

TOKEN = "may-patch"
PATH = "/apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices/{}"
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SCHEMA = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "serving.kserve.io/v1beta1"},
        "kind": {"const": "InferenceService"},
        "metadata": {
            "type": "object",
            "required": ["name", "namespace"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string"},
                "namespace": {"type": "string"},
                "generation": {"type": "integer"},
                "annotations": {
                    **TEXTS,
                    "propertyNames": {
                        "pattern": r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$"
                    },
                },
            },
        },
        "spec": {
            "type": "object",
            "required": ["predictor"],
            "additionalProperties": False,
            "properties": {
                "predictor": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "minReplicas": {"type": "integer"},
                        "model": {
                            "type": "object",
                            "required": ["modelFormat"],
                            "additionalProperties": False,
                            "properties": {
                                "modelFormat": {
                                    "type": "object",
                                    "required": ["name"],
                                    "properties": {"name": {"type": "string"}, "version": {"type": "string"}},
                                },
                                "storageUri": {"type": "string"},
                                "runtime": {"type": "string"},
                            },
                        },
                    },
                }
            },
        },
    },
}


def service(name: str, namespace: str = "models") -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace, "generation": 1, "annotations": {"team": "flights"}},
        "spec": {
            "predictor": {
                "minReplicas": 2,
                "model": {"modelFormat": {"name": "onnx"}, "storageUri": "s3://old/place", "runtime": "triton"},
            }
        },
    }


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@dataclass
class Cluster:
    """The objects by path, and where the API is."""

    server: str = ""
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    managers: list[str] = field(default_factory=list)
    forbidden: bool = False

    def patch(self, path: str, token: str | None, kind: str | None, body: bytes) -> tuple[int, dict[str, Any]]:
        found = urlsplit(path)
        if token != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized")
        if self.forbidden:
            return _status(403, 'inferenceservices "flights" is forbidden: User "ci" cannot patch resource')
        if kind != "application/merge-patch+json":
            return _status(415, f"unsupported media type {kind}")
        if found.path not in self.objects:
            return _status(404, f'inferenceservices.serving.kserve.io "{found.path.rpartition("/")[2]}" not found')
        before = self.objects[found.path]
        after = merged(before, json.loads(body))
        try:
            jsonschema.validate(after, SCHEMA)
        except jsonschema.ValidationError as error:
            return _status(422, error.message)
        if after["spec"] != before["spec"]:
            after["metadata"]["generation"] += 1
        self.objects[found.path] = after
        self.managers += parse_qs(found.query).get("fieldManager", [])
        return 200, after


def _status(code: int, said: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": said, "code": code}


@contextmanager
def kubernetes(shown: Pair) -> Iterator[Cluster]:
    """The API on a free port, with this certificate."""
    cluster = Cluster()

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code, document = cluster.patch(self.path, self.headers["Authorization"], self.headers["Content-Type"], body)
            data = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(shown.certificate, shown.key)
    with http_server(Handler, tls) as address:
        cluster.server = f"https://{address}"
        yield cluster
