"""Who may do what: a role for the action, and for a model that belongs to a team somebody of that team."""

from __future__ import annotations

from fastapi import Request
from sqlalchemy import ColumnElement, Select, or_, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.callers import User
from tidegate_pipelines.hub.store import ModelRow
from tidegate_serving.contract.errors import NotFound, PermissionRefused

ALL_TEAMS = "*"


def caller(hub: Hub, request: Request, role: str, action: str = "", thing: str = "") -> User:
    """Who asks, who has `role`. PermissionRefused for others, which is audited where it would have changed something.
    Unauthenticated where nobody knows who it is."""
    user = hub.current_user(request)
    if user.may(role):
        return user
    has = ", ".join(sorted(user.roles)) or "none"
    message = f"{user.name} has role {has}, and this needs {role}: ask whoever gives roles"
    if action:
        hub.audit(user.name, action, thing, "refused", message)
    raise PermissionRefused(message)


def of_teams(user: User, model: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Rows of models that the user may see: those of no team, and of the user's teams."""
    if ALL_TEAMS in user.teams:
        return true()
    theirs: Select[str] = select(ModelRow.name).where(or_(ModelRow.team == "", ModelRow.team.in_(user.teams)))
    return model.in_(theirs)


def check_model(session: Session, user: User, model: str) -> None:
    """NotFound for a model of a team that the user is not in, as for one that is not there."""
    row = session.get(ModelRow, model)
    if row is not None and row.team and not user.teams & {ALL_TEAMS, row.team}:
        raise NotFound(f"there is no model {model!r}: see /api/v1/models")
