"""Where a hub listens."""

from __future__ import annotations

import socket

import pytest

from tidegate_pipelines.hub.service import listen


@pytest.mark.parametrize(
    ("host", "asked"), [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("[::]", "::1"), ("[::]", "127.0.0.1")]
)
def test_a_hub_listens_on_either_protocol(host: str, asked: str) -> None:
    with listen(f"{host}:0") as listener:
        port = listener.getsockname()[1]
        with socket.create_connection((asked, port), timeout=10) as caller:
            assert caller.getpeername()[:2] == (asked, port)
