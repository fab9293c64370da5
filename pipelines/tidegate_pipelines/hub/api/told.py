"""Takes in releases that ran without the hub, once they are over."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.api.documents import Moment, Release, WholeNumber
from tidegate_pipelines.hub.api.permissions import audited, caller
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.callers import check_model
from tidegate_pipelines.hub.releases.told import ELSEWHERE, StageBegun, Told, keep_told
from tidegate_pipelines.hub.store import ReleaseRow

_ACTION = "keep release"


class Stage(BaseModel):
    """A stage (fetch, validate, push, canary or promote) and when it began."""

    model_config = ConfigDict(extra="forbid")

    name: str
    at: Moment


class ToldRelease(BaseModel):
    """A release that is over. `key` makes it arrive once however often it is sent; `run` leads to whatever ran it."""

    model_config = ConfigDict(extra="forbid")

    model: str
    version: WholeNumber
    succeeded: bool
    begun: Moment
    ended: Moment
    key: str = Field(min_length=1, max_length=200)
    sentence: str = ""
    run: str = Field(default="", max_length=200)
    stages: list[Stage] = Field(default_factory=list, max_length=20)


def told_router(hub: Hub) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["releases"])

    @router.post("/releases/elsewhere", status_code=201)
    def keep(sent: ToldRelease, request: Request) -> Release:
        """Keeps a release that ran without the hub; verdict and canary are read from the hub's model repository."""
        thing = f"model {sent.model}:{sent.version}"
        user = caller(hub, request, "release", _ACTION, thing)
        with audited(hub, request, user, _ACTION, thing) as done:
            check_model(user, sent.model, "release")

            def kept(session: Session, row: ReleaseRow) -> None:
                done.reason = row.sentence
                done.within(session)

            row = keep_told(hub.database, hub.config, _told(sent, user.name), kept)
            done.reason = row.sentence
        return Release.model_validate(row)

    return router


def _told(sent: ToldRelease, told_by: str) -> Told:
    stages = tuple(StageBegun(one.name, one.at) for one in sent.stages)
    return Told(
        sent.model,
        sent.version,
        sent.succeeded,
        sent.begun,
        sent.ended,
        f"{ELSEWHERE}:{sent.key}",
        told_by,
        sent.sentence,
        sent.run,
        stages,
    )
