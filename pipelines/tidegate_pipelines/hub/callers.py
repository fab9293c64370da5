"""What every room asks of sign-in and audit, so that none has to know how they are done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request

ROLES = ("look", "release", "operate")
"""As on the engine's control port: each may do what those before it may."""


@dataclass(frozen=True, slots=True)
class User:
    """Who asks: a name for the audit log, roles out of `ROLES`, and teams, of which "*" is every one."""

    name: str
    roles: frozenset[str]
    teams: frozenset[str] = frozenset({"*"})

    def may(self, role: str) -> bool:
        """Whether one of the roles covers `role`."""
        return any(ROLES.index(one) >= ROLES.index(role) for one in self.roles if one in ROLES)


class CurrentUser(Protocol):
    """Tells who sent a request. Unauthenticated where nobody knows."""

    def __call__(self, request: Request) -> User:
        """The one who asks."""


class Audit(Protocol):
    """Writes down what somebody did or was refused, before the answer leaves."""

    def __call__(self, actor: str, action: str, thing: str, outcome: str, detail: str = "") -> None:
        """One line, such as `anna`, `release`, `flights:3`, `refused`, `her role is look`."""
