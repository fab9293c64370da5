"""Who may do what: a role for the action, and for a model that belongs to a team somebody of that team."""

from __future__ import annotations

from fastapi import Request
from sqlalchemy import ColumnElement, true
from sqlalchemy.orm import InstrumentedAttribute

from tidegate_pipelines.hub.access import Caller, require
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.callers import User
from tidegate_serving.contract.errors import NotFound, PermissionRefused


def caller(hub: Hub, request: Request, role: str, action: str = "", thing: str = "") -> User:
    """Who asks, who has `role` for some model. PermissionRefused for others, which is audited where it would have
    changed something. Unauthenticated where nobody knows who it is."""
    user = hub.current_user(request)
    if user.may(role):
        return user
    has = ", ".join(sorted(user.roles)) or "none"
    message = f"{user.name} has role {has}, and this needs {role}: ask whoever gives roles"
    if action:
        hub.audit(user.name, action, thing, "refused", message)
    raise PermissionRefused(message)


def sees_all(user: User) -> bool:
    """Whether the user may see every model."""
    return not isinstance(user, Caller) or not user.seen_pattern()


def of_teams(user: User, model: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Rows of models that the user may see: those of their teams."""
    pattern = user.seen_pattern() if isinstance(user, Caller) else ""
    return model.regexp_match(pattern) if pattern else true()


def check_model(user: User, model: str, role: str = "look") -> None:
    """NotFound for a model that the user does not see, as for one that is not there; PermissionRefused for one that
    they see and may not do this to."""
    if isinstance(user, Caller) and not user.sees(model):
        raise NotFound(f"there is no model {model!r}: see /api/v1/models")
    require(user, role, model)
