"""Stands between a client and a real HTTP server, hands everything on, and for a while answers 500, or nothing."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

import httpx


class Between:
    """A context manager over the server at `address`; its own address is `url`.

    What is asked below one of the paths of `faulty` is answered 500; while `slow` is set, nothing is answered.
    """

    def __init__(self, address: str) -> None:
        self.faulty: tuple[str, ...] = ()
        self.slow = False
        self._answers = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, address))
        self._thread = threading.Thread(target=self._server.serve_forever, name="between")
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def recover(self) -> None:
        """Everything is handed on again, what waited too."""
        with self._answers:
            self.faulty, self.slow = (), False
            self._answers.notify_all()

    def await_answers(self) -> None:
        """Returns once it is not slow any more."""
        with self._answers:
            self._answers.wait_for(lambda: not self.slow)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.recover()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


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

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
