"""Whether the hub lives is answered while everything that other requests need is taken."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import httpx
from fastapi import APIRouter
from sqlalchemy import text

from tidegate_pipelines.hub.access import Access
from tidegate_pipelines.hub.app import Hub, create_app
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import MOST_AT_ONCE, Database

HERE = "http://127.0.0.1:8600"
MANY = 100


def test_health_waits_for_no_thread_and_no_connection_of_other_requests(database: Database) -> None:
    inside, go = threading.Semaphore(0), threading.Event()

    def slow(hub: Hub) -> APIRouter:
        router = APIRouter()

        @router.get("/slow")
        def page() -> None:
            with hub.database.reading() as session:
                session.execute(text("SELECT 1"))
                inside.release()
                assert go.wait(60)

        return router

    audit = AuditLog(database)
    access = Access(AccessConfig(), database, audit)
    app = create_app(Hub(HubConfig(directory=Path("hub")), database, access, audit), [slow], access=access)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:
            pages = [asyncio.create_task(client.get("/slow")) for _ in range(MANY)]
            try:
                for _ in range(MOST_AT_ONCE):
                    await asyncio.to_thread(inside.acquire)
                return await asyncio.wait_for(client.get("/health"), 20)
            finally:
                go.set()
                assert [one.status_code for one in await asyncio.gather(*pages)] == [200] * MANY

    assert asyncio.run(ask()).json() == {"status": "ok"}


def test_health_of_a_hub_whose_database_is_away_says_so(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/nowhere/hub.db")
    audit = AuditLog(database)
    access = Access(AccessConfig(), database, audit)
    app = create_app(Hub(HubConfig(directory=tmp_path), database, access, audit), [], access=access)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:
            return await client.get("/health")

    answer = asyncio.run(ask())
    assert answer.status_code == 503
    assert "nowhere/hub.db cannot be used" in answer.json()["error"]["message"]
