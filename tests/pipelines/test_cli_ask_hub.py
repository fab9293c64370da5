"""Commands that ask a hub over TLS: whose certificates count, and what is said where one does not."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.neighbours.certificates import Authority


class NoHub(BaseHTTPRequestHandler):
    """Answers with a page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<h1>It works</h1>")

    def log_message(self, format: str, *args: object) -> None:
        """Keeps quiet."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def port(authority: Authority) -> Iterator[int]:
    """Where something that is no hub speaks TLS, as 127.0.0.1 and nobody else."""
    shown = authority.issue("hub", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    with HTTPServer(("127.0.0.1", 0), NoHub) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Command(monkeypatch, capsys)


def test_a_certificate_that_is_not_trusted_is_named_with_what_to_do(
    asked: Command, port: int, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = ("override", "17", "--gate", "quality", "--reason", "x", "--expires", "4h", "--key", "k", "--hub")
    done = asked(*common, f"https://127.0.0.1:{port}")
    assert done.returncode == 2
    assert "is not trusted (unable to get local issuer certificate): have SSL_CERT_FILE name" in done.stderr
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    assert "mismatch" in asked(*common, f"https://localhost:{port}").stderr
    assert "is no hub (HTTP 200): mend the address" in asked(*common, f"https://127.0.0.1:{port}").stderr


def test_certificates_that_cannot_be_read_and_a_proxy_that_is_none_are_named(
    asked: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    common = ("approve", "17", "--reason", "x", "--hub", "https://127.0.0.1:1")
    assert "no hub answers at https://127.0.0.1:1 ([Errno 111] Connection refused)" in asked(*common).stderr
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://")
    assert "HTTPS_PROXY names cannot be used" in asked(*common).stderr
    (tmp_path / "empty.pem").write_text("no certificate")
    for name in ("none.pem", "empty.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / name))
        done = asked(*common)
        assert (done.returncode, f"{name}', which cannot be used" in done.stderr) == (2, True), done.stderr


def test_a_token_of_two_lines_is_not_sent_and_not_shown(asked: Command, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\nmore\n")
    token.chmod(0o600)
    done = asked("approve", "17", "--reason", "x", "--hub", "https://127.0.0.1:1", "--token-file", token)
    assert "has a blank in it: copy it again" in done.stderr
    assert "secret" not in done.stderr
