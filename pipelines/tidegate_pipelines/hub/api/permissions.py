"""Whether a program's request may be looked at, written into the audit log where it would have changed something."""

from __future__ import annotations

from fastapi import Request

from tidegate_pipelines.hub.access import Caller
from tidegate_pipelines.hub.access.protection import client_address
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.callers import require_somewhere
from tidegate_serving.contract.errors import PermissionRefused


def caller(hub: Hub, request: Request, role: str, action: str = "", thing: str = "") -> Caller:
    """Who asks, who has `role` for some model. PermissionRefused for others, which is audited where it would have
    changed something. Unauthenticated where nobody knows who it is."""
    found = hub.current_user(request)
    try:
        require_somewhere(found, role)
    except PermissionRefused as error:
        if action:
            hub.audit(found.name, action, thing, "refused", error.message, address=client_address(request.scope))
        raise
    return found
