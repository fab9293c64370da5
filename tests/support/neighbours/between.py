"""Stands between a client and a real HTTP server, hands everything on, and for a while answers 500, or nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import httpx
from tests.support.neighbours.http_server import http_server


class Between:
    """At `url`. What is asked below one of the paths of `faulty` is answered 500; while `slow` is set, nothing is."""

    def __init__(self) -> None:
        self.faulty: tuple[str, ...] = ()
        self.slow = False
        self.url = ""
        self._answers = threading.Condition()

    def recover(self) -> None:
        """Everything is handed on again, what waited too."""
        with self._answers:
            self.faulty, self.slow = (), False
            self._answers.notify_all()

    def await_answers(self) -> None:
        """Returns once it is not slow any more."""
        with self._answers:
            self._answers.wait_for(lambda: not self.slow)


@contextmanager
def stand_between(address: str) -> Iterator[Between]:
    """One over the server at `address`, which ends with the context."""
    between = Between()
    with http_server(_handler(between, address)) as own:
        between.url = f"http://{own}"
        try:
            yield between
        finally:
            between.recover()


def _handler(between: Between, address: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._hand_on()

        def do_POST(self) -> None:
            self._hand_on()

        def _hand_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            between.await_answers()
            if self.path.startswith(between.faulty):
                self._say(500, "text/plain", b"")
                return
            headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
            url = f"{address}{self.path}"
            answer = httpx.request(self.command, url, content=body, headers=headers, timeout=60, trust_env=False)
            self._say(answer.status_code, answer.headers.get("Content-Type", "text/plain"), answer.content)

        def _say(self, status: int, kind: str, content: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # Whoever asked has given up waiting.

    return Handler
