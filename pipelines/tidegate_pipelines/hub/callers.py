"""Who asks, and what they may do: what every room asks of sign-in and audit, so that none knows how these are done.

A caller has a role for each team that they belong to, and a team has models. Nothing else knows it: a page, a program's
answer and a decision about one model ask here, and lists are cut to what somebody sees by the same expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Protocol

from sqlalchemy import ColumnElement, true
from sqlalchemy.orm import InstrumentedAttribute, Session
from starlette.requests import Request

from tidegate_serving.contract.errors import NotFound, PermissionRefused

ROLES = ("look", "release", "operate")
"""As on the engine's control port: each may do what those before it may."""
ALL = "*"


def names_like(patterns: tuple[str, ...]) -> str:
    """The names that patterns with `*` and `?` are about, as a regular expression that Python, SQLite and PostgreSQL
    read alike."""
    escaped = (re.escape(one).replace(r"\*", ".*").replace(r"\?", ".") for one in sorted(patterns))
    return f"^({'|'.join(escaped)})$" if patterns else "^$"


@dataclass(frozen=True)
class TeamGrant:
    """A role for the models of a team, given as patterns; team "*" is for every model."""

    role: str
    team: str
    models: tuple[str, ...]

    def covers(self, model: str) -> bool:
        """Whether it is for this model; without a name for what concerns all models."""
        return ALL in self.models or bool(model and self._names.match(model))

    def covers_text(self, pattern: str) -> bool:
        """Whether it is for every model like this pattern."""
        return ALL in self.models or any(fnmatchcase(pattern, one) for one in self.models if not set(one) & set("?["))

    @cached_property
    def _names(self) -> re.Pattern[str]:
        return re.compile(names_like(self.models))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a name for the audit log, and what they may do. `kind` is how they are known: `local`, `token` or
    `oidc`. `groups` are what their provider says they belong to, `email` is the address that it has verified."""

    name: str
    kind: str = "local"
    grants: tuple[TeamGrant, ...] = ()
    groups: frozenset[str] = frozenset()
    email: str = ""

    @property
    def teams(self) -> frozenset[str]:
        """Those that they belong to; "*" is every one."""
        return frozenset(grant.team for grant in self.grants)

    @property
    def sees_all(self) -> bool:
        """Whether they may look at every model."""
        return any(ALL in grant.models for grant in self.grants)

    def may_on(self, role: str, model: str) -> bool:
        """Whether they may do what needs `role` to this model; an empty name is what concerns every model."""
        return any(_covers(one.role, role) and one.covers(model) for one in self.grants)

    def may_on_all(self, role: str, pattern: str) -> bool:
        """Whether they may do what needs `role` to every model like `pattern`: where one of their own patterns covers
        it as a text. One with other signs than `*` may match more than it looks, and covers names alone."""
        if not set(pattern) & set("*?["):
            return self.may_on(role, pattern)
        return any(_covers(one.role, role) and one.covers_text(pattern) for one in self.grants)

    def may_somewhere(self, role: str) -> bool:
        """Whether they may do what needs `role` to any model."""
        return any(_covers(one.role, role) for one in self.grants)

    def sees(self, model: str) -> bool:
        """Whether they may look at this model."""
        return self.may_on("look", model)

    def sees_rows(self, model: InstrumentedAttribute[str]) -> ColumnElement[bool]:
        """Rows of models that they may look at."""
        if self.sees_all:
            return true()
        return model.regexp_match(names_like(tuple({pattern for grant in self.grants for pattern in grant.models})))


LOCAL = Caller("local", "local", (TeamGrant("operate", ALL, (ALL,)),))
"""Whoever has an account on this machine, where nothing says who may do what."""


class CurrentUser(Protocol):
    """Tells who sent a request. Unauthenticated where nobody knows."""

    def __call__(self, request: Request) -> Caller:
        """The one who asks."""


class Audit(Protocol):
    """Writes down what somebody did or was refused, before the answer leaves."""

    def __call__(
        self,
        actor: str,
        action: str,
        thing: str,
        outcome: str,
        detail: str = "",
        *,
        address: str,
        session: Session | None = None,
    ) -> None:
        """One line, such as `anna`, `release`, `model flights:3`, `refused`, `her role is look`; `address` is where the
        request came from. It is there with what `session` writes or not at all, of which it is the last."""


def require(caller: Caller, role: str, model: str = "") -> None:
    """PermissionRefused, saying what would be needed, unless `caller` may do what needs `role` to `model`; without a
    model for what concerns all of them."""
    if not caller.may_on(role, model):
        raise _refusal(caller, role, f"model {model!r}" if model else "every model")


def require_all(caller: Caller, role: str, pattern: str) -> None:
    """The same for every model like a pattern."""
    if not caller.may_on_all(role, pattern):
        raise _refusal(caller, role, "every model" if set(pattern) & set("*?[") else f"model {pattern!r}")


def require_somewhere(caller: Caller, role: str) -> None:
    """The same for whoever may do it to no model at all."""
    if not caller.may_somewhere(role):
        raise _refusal(caller, role, "some model")


def check_model(caller: Caller, model: str, role: str = "look") -> None:
    """NotFound for a model that they do not see, as for one that is not there; PermissionRefused for one that they see
    and may not do this to."""
    if not caller.sees(model):
        raise NotFound(f"there is no model {model!r}: see /api/v1/models")
    require(caller, role, model)


def _covers(has: str, needed: str) -> bool:
    return ROLES.index(has) >= ROLES.index(needed)


def _refusal(caller: Caller, role: str, what: str) -> PermissionRefused:
    has = ", ".join(sorted({grant.role for grant in caller.grants})) or "no role"
    teams = ", ".join(sorted(caller.teams)) or "no team"
    return PermissionRefused(
        f"{caller.name} may not: this needs role {role} for {what}, and they have {has} in {teams}: ask whoever keeps "
        "the hub's access file"
    )
