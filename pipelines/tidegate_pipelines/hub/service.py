"""The hub that runs: every room on one database, the routes of all, and what goes on in the background."""

from __future__ import annotations

from fastapi import FastAPI

from tidegate_pipelines.hub.app import Hub, MakeRouter, create_app

ROUTERS: tuple[MakeRouter, ...] = ()
"""The routes of every room that has some."""


def application(hub: Hub) -> FastAPI:
    """The web application over all rooms."""
    return create_app(hub, ROUTERS)
