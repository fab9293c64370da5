"""Who asks, and what they may do: a role for each team that they belong to, and the models that the team has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tidegate_pipelines.hub.callers import ROLES, User
from tidegate_serving.contract.errors import PermissionRefused

ALL = "*"


@dataclass(frozen=True, slots=True)
class TeamGrant:
    """A role for the models of a team, given as patterns; team "*" is for every model."""

    role: str
    team: str
    models: tuple[str, ...]

    def covers(self, model: str) -> bool:
        """Whether it is for this model; without a name for what concerns all models."""
        if ALL in self.models:
            return True
        return bool(model) and any(fnmatchcase(model, pattern) for pattern in self.models)


@dataclass(frozen=True, slots=True)
class Caller(User):
    """A user whose roles go by team. `kind` is how they are known: `local`, `token` or `oidc`. `groups` are what their
    provider says they belong to."""

    kind: str = "local"
    grants: tuple[TeamGrant, ...] = ()
    groups: frozenset[str] = frozenset()

    def may_on(self, role: str, model: str) -> bool:
        """Whether they may do what needs `role` to this model; an empty name is what concerns every model."""
        return any(ROLES.index(one.role) >= ROLES.index(role) and one.covers(model) for one in self.grants)

    def sees(self, model: str) -> bool:
        """Whether they may look at this model."""
        return self.may_on("look", model)

    def seen_pattern(self) -> str:
        """A regular expression of the names that they see, as SQLite and PostgreSQL read it; empty for all names."""
        patterns = {pattern for grant in self.grants for pattern in grant.models}
        if ALL in patterns:
            return ""
        escaped = (re.escape(one).replace(r"\*", ".*").replace(r"\?", ".") for one in sorted(patterns))
        return f"^({'|'.join(escaped)})$" if patterns else "^$"


LOCAL = Caller("local", frozenset({"operate"}), frozenset({ALL}), "local", (TeamGrant("operate", ALL, (ALL,)),))
"""Whoever has an account on this machine, where nothing says who may do what."""


def caller_of(name: str, kind: str, grants: tuple[TeamGrant, ...], groups: frozenset[str] = frozenset()) -> Caller:
    """A caller with these grants."""
    roles, teams = frozenset(grant.role for grant in grants), frozenset(grant.team for grant in grants)
    return Caller(name, roles, teams, kind, grants, groups)


def require(user: User, role: str, model: str = "") -> None:
    """PermissionRefused, saying what would be needed, unless `user` may do what needs `role` to `model`; without a
    model for what concerns all of them."""
    may = user.may_on(role, model) if isinstance(user, Caller) else user.may(role)
    if may:
        return
    what = f"model {model!r}" if model else "every model"
    has = ", ".join(sorted(user.roles)) or "no role"
    teams = ", ".join(sorted(user.teams)) or "no team"
    raise PermissionRefused(
        f"{user.name} may not: this needs role {role} for {what}, and they have {has} in {teams}: ask whoever keeps "
        "the hub's access file"
    )
