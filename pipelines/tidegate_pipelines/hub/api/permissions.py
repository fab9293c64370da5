"""Whether a program's request may be looked at, and what became of it in the audit log where it changes something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fastapi import Request
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.access import Caller
from tidegate_pipelines.hub.access.protection import client_address
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.callers import require_somewhere
from tidegate_serving.contract.errors import PermissionRefused, TidegateError


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


@dataclass(slots=True)
class Done:
    """What an audited request says of itself once it is done. `keep` writes its line in a transaction, or in one of its
    own for None."""

    keep: Callable[[str, Session | None], None]
    reason: str = ""
    kept: bool = False

    def within(self, session: Session) -> None:
        """Its line is there with what the session has written or not at all; nothing may be written behind it."""
        self.keep(self.reason, session)
        self.kept = True


@contextmanager
def audited(hub: Hub, request: Request, user: Caller, action: str, thing: str) -> Iterator[Done]:
    """Within it a request is done: then it is in the audit log with its reason, and else as refused with the error."""
    address = client_address(request.scope)

    def keep(reason: str, session: Session | None) -> None:
        hub.audit(user.name, action, thing, "done", reason, address=address, session=session)

    done = Done(keep)
    try:
        yield done
    except TidegateError as error:
        hub.audit(user.name, action, thing, "refused", error.message, address=address)
        raise
    if not done.kept:
        keep(done.reason, None)
