"""Receipts for programs: from a request id to everything behind its answer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict

from tidegate_pipelines.hub.access import require
from tidegate_pipelines.hub.api.permissions import caller
from tidegate_pipelines.hub.app import Hub


class AskedAgain(BaseModel):
    """Whose answer is to be computed again; without `model` that of every model that was asked under the id."""

    model_config = ConfigDict(extra="forbid")

    request_id: str
    model: str | None = None


def receipts_router(hub: Hub) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["receipts"])
    receipts = hub.receipts

    @router.get("/receipts")
    def found(request: Request, request_id: str, model: str | None = None) -> list[dict[str, Any]]:
        """What stands behind the answers to a request, the newest first, of models that the caller sees."""
        user = caller(hub, request, "look")
        return [one.to_dict() for one in receipts.find(request_id, model, user.sees)]

    @router.post("/receipts/again")
    def again(asked: AskedAgain, request: Request) -> list[dict[str, Any]]:
        """The same, with the answers computed again and compared; that takes the role `release`."""
        user = caller(hub, request, "release", "compute again", f"request {asked.request_id[:100]}")
        found = receipts.compute_again(
            asked.request_id, asked.model, user.sees, lambda model: require(user, "release", model)
        )
        return [one.to_dict() for one in found]

    return router
