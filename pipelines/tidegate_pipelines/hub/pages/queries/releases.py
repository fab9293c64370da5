"""Releases of all models, the newest first, filtered by state and model."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.pages.queries.common import LINE, ReleaseLine, release_line
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.store import ReleaseRow, ReleaseState

PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class ReleaseQuestion:
    """What was asked for: a state or "", part of a model's name, and the release that the page begins behind or 0."""

    state: str = ""
    text: str = ""
    before: int = 0


@dataclass(frozen=True, slots=True)
class ReleaseList:
    """One page; `more` is what the next one comes behind, None for the last."""

    lines: tuple[ReleaseLine, ...]
    question: ReleaseQuestion
    states: tuple[str, ...]
    more: int | None


def release_list(session: Session, viewer: Viewer, question: ReleaseQuestion) -> ReleaseList:
    """The page that was asked for."""
    states = tuple(one.value for one in ReleaseState)
    query = select(*LINE).order_by(ReleaseRow.id.desc())
    if question.state in states:
        query = query.where(ReleaseRow.state == ReleaseState(question.state))
    if question.text:
        query = query.where(ReleaseRow.model.icontains(question.text, autoescape=True))
    if question.before:
        query = query.where(ReleaseRow.id < question.before)
    found: list[ReleaseLine] = []
    with session.execute(query.execution_options(yield_per=PER_PAGE * 2)) as rows:
        for row in rows:
            if viewer.sees(row.model):
                found.append(release_line(row))
            if len(found) > PER_PAGE:
                break
    shown = tuple(found[:PER_PAGE])
    return ReleaseList(shown, question, states, shown[-1].id if len(found) > PER_PAGE else None)
