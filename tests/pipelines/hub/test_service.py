"""Where a hub listens, where it finds its engines, and how many requests it answers at once."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import httpx
import pytest
from anyio.to_thread import current_default_thread_limiter
from tests.support.eventually import eventually
from tests.support.neighbours.certificates import DAY, Authority

from tidegate_pipelines.cli.hub import hub
from tidegate_pipelines.hub import logs, service
from tidegate_pipelines.hub.config import EngineConfig, HubConfig
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.service import Service, listen, run
from tidegate_pipelines.hub.store import MOST_AT_ONCE
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, TidegateError


@pytest.mark.parametrize(
    ("host", "asked"), [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("[::]", "::1"), ("[::]", "127.0.0.1")]
)
def test_a_hub_listens_on_either_protocol(host: str, asked: str) -> None:
    with listen(f"{host}:0") as listener:
        port = listener.getsockname()[1]
        with socket.create_connection((asked, port), timeout=10) as caller:
            assert caller.getpeername()[:2] == (asked, port)


def test_an_address_that_is_taken_is_told_with_what_to_do() -> None:
    with listen("127.0.0.1:0") as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(FailedPrecondition, match=f"{address} cannot be listened on .*: end what listens there, or"):
            listen(address)


def test_an_engines_address_that_is_none_is_told_at_the_start() -> None:
    with pytest.raises(InvalidInput, match="address 'engine' is not host:port"):
        EngineConfig(control="engine")


def test_tls_files_that_cannot_be_used_are_named_before_the_hub_starts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    good, other = authority.issue("hub"), authority.issue("other")
    over = authority.issue("over", since=-2 * DAY, until=-DAY)
    (tmp_path / "text").write_text("no PEM")
    for certificate, key, words in (
        (good.certificate, other.key, r"access.key .*other.* does not belong to access.certificate .*: replace both"),
        (tmp_path / "none.pem", good.key, r"access.certificate .*none.pem is missing: put a PEM file there"),
        (tmp_path / "text", good.key, r"access.certificate .*text has no PEM certificate"),
        (over.certificate, over.key, r"over.* is valid from .*: renew it"),
    ):
        access = AccessConfig(certificate=certificate, key=key)
        with pytest.raises(TidegateError, match=words):
            run(HubConfig(directory=tmp_path / "hub", address="127.0.0.1:0", access=access))
    assert not (tmp_path / "hub").exists()
    AccessConfig(certificate=good.certificate, key=good.key).check_certificate()


def test_a_hub_answers_as_many_requests_at_once_as_its_database_has_connections(tmp_path: Path) -> None:
    replica, go, many = Service(HubConfig(directory=tmp_path)), threading.Event(), 5 * MOST_AT_ONCE
    replica.prepare()

    @replica.app.get("/slow")
    def slow() -> None:
        assert go.wait(60)

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(replica.app)
        async with (
            replica.app.router.lifespan_context(replica.app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8600") as client,
        ):
            pages = [asyncio.create_task(client.get("/slow")) for _ in range(many)]
            threads = current_default_thread_limiter()
            try:
                await asyncio.to_thread(eventually, lambda: threads.statistics().tasks_waiting == many - MOST_AT_ONCE)
            finally:
                go.set()
            return await asyncio.gather(*pages)

    assert [one.status_code for one in asyncio.run(ask())] == [200] * many


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("", "the hub is at https://0.0.0.0:8600\n"),
        (
            'public_url = "https://hub.example.com"\n',
            "the hub is at https://hub.example.com, listening at https://0.0.0.0:8600\n",
        ),
    ],
)
def test_a_hub_tells_the_address_by_which_people_reach_it(
    settings: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(service, "run", lambda config, ready_file, on_ready: on_ready("https://0.0.0.0:8600"))
    monkeypatch.setattr(logs, "log_to_stderr", lambda: None)
    (tmp_path / "hub.toml").write_text(settings)
    hub(tmp_path / "hub.toml", directory=tmp_path)
    assert capsys.readouterr().out == told
