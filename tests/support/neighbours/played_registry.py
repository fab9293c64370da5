"""A registry that speaks as much of MLflow's REST API as the hub asks for, and can be away in two ways."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.neighbours.http_server import http_server

ALIAS = "candidate"


class PlayedRegistry:
    """At `address`. `wanted` are the versions that the alias is set on; while `faulty` is set it answers 500, and
    while `slow` is set not at all. Nothing may be written about models that are `closed`. Where `authorization` is
    set, requests have to bring it."""

    def __init__(self) -> None:
        self.wanted: dict[str, int] = {}
        self.closed: set[str] = set()
        self.authorization: str | None = None
        self.faulty = threading.Event()
        self.slow = threading.Event()
        self._awake = threading.Event()
        self.address = ""

    def recover(self) -> None:
        """It answers again, those too whom it let wait."""
        self.faulty.clear()
        self.slow.clear()
        self._awake.set()

    def answer(self, path: str) -> dict[str, Any]:
        """What it says at a path."""
        split = urlsplit(path)
        if split.path.endswith("/registered-models/search"):
            return {"registered_models": [self._model(name) for name in self.wanted]}
        if split.path.endswith("/registered-models/get"):
            return {"registered_model": self._model(parse_qs(split.query)["name"][0])}
        return {}

    def _model(self, name: str) -> dict[str, Any]:
        aliases = [{"alias": ALIAS, "version": str(self.wanted[name])}]
        return {"name": name, "creation_timestamp": 1_700_000_000_000, "aliases": aliases}

    def handler(self) -> type[BaseHTTPRequestHandler]:
        """What serves it."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._say()

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._say(403 if body["name"] in registry.closed else 200)

            def _say(self, status: int = 200) -> None:
                if registry.slow.is_set():
                    registry._awake.wait()
                if registry.authorization not in (None, self.headers["Authorization"]):
                    status = 401
                self.send_response(500 if registry.faulty.is_set() else status)
                self.end_headers()
                self.wfile.write(json.dumps({} if status == 401 else registry.answer(self.path)).encode())

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler


@contextmanager
def played_registry() -> Iterator[PlayedRegistry]:
    """One that ends with the context."""
    registry = PlayedRegistry()
    with http_server(registry.handler()) as own:
        registry.address = f"http://{own}"
        try:
            yield registry
        finally:
            registry.recover()
