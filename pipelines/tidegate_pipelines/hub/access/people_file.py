"""The hub's access file: teams and their models, tokens by their hash, and members whom a provider knows.

It is read again whenever it changes; who was taken out of it is out with the next request.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_pipelines.hub.callers import ALL, Caller, TeamGrant
from tidegate_serving.admission.trust import FileWatch
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unauthenticated
from tidegate_serving.contract.formats import check_format
from tidegate_serving.control.access.access_file import check_caller, hash_of
from tidegate_serving.control.access.grants import Role
from tidegate_serving.typed_config import read_config, read_toml

FORMAT_KIND = "hub-access"
VERSION = "1"
_HASH_LENGTH = 64
_PATTERN = re.compile(r"[A-Za-z0-9._*?-]{1,128}\Z")


@dataclass(frozen=True, slots=True)
class Team:
    """A table `[team.NAME]`. models: patterns of the names of its models, `*` and `?` in them."""

    models: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.models or not all(map(_PATTERN.match, self.models)):
            raise InvalidInput(f'models are {list(self.models)}: write patterns of names, such as "flights*"')


@dataclass(frozen=True, slots=True)
class Token:
    """A table `[[token]]`: one that a program, or a person without a provider, signs in with.

    sha256: of the token, hex. teams: whose models it is for, "*" for all. expires: RFC 3339; empty for never.
    """

    name: str
    sha256: str
    role: Role
    teams: tuple[str, ...] = (ALL,)
    expires: str = ""

    def __post_init__(self) -> None:
        check_caller(self.name)
        if len(self.sha256) != _HASH_LENGTH or set(self.sha256) - set("0123456789abcdef"):
            raise InvalidInput(f"sha256 of {self.name!r} is no SHA-256 in hex: copy what `tidegate token new` printed")
        if self.expires:
            times.from_text(self.expires, "expires")


@dataclass(frozen=True, slots=True)
class Member:
    """A table `[[member]]`: people whom the provider knows by one of `subject`, `email` (which it has verified) and
    `group`. teams: whose models they are for, "*" for all."""

    role: Role
    teams: tuple[str, ...] = (ALL,)
    subject: str = ""
    email: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.subject, self.email, self.group))) != 1:
            raise InvalidInput("a [[member]] is named by one of subject, email and group: write one of them")

    def is_one(self, subject: str, email: str, groups: Collection[str]) -> bool:
        """Whether somebody with these is meant; `email` is empty where nobody has verified it."""
        if self.subject:
            return self.subject == subject
        if self.email:
            return bool(email) and self.email.casefold() == email.casefold()
        return self.group in groups


@dataclass(frozen=True, slots=True)
class People:
    """The file's content."""

    format: str
    team: dict[str, Team] = field(default_factory=dict)
    token: tuple[Token, ...] = ()
    member: tuple[Member, ...] = ()

    def __post_init__(self) -> None:
        everybody: tuple[Token | Member, ...] = (*self.token, *self.member)
        for one in everybody:
            if unknown := next((name for name in one.teams if name != ALL and name not in self.team), None):
                raise InvalidInput(f"team {unknown!r} is named but not there: add [team.{unknown}] with its models")
        hashes = [one.sha256 for one in self.token]
        if twice := next((one for one in self.token if hashes.count(one.sha256) > 1), None):
            raise InvalidInput(f"the token of {twice.name!r} is there twice: leave one of both")

    def by_token(self, token: str) -> tuple[Caller, str]:
        """Who signs in with it, and its hash. Unauthenticated for one that is not there, or no more."""
        sha256 = hash_of(token)
        return self.by_hash(sha256), sha256

    def by_hash(self, sha256: str) -> Caller:
        """Who a token of this hash belongs to. Unauthenticated for one that is not there, or no more."""
        found = next((one for one in self.token if secrets.compare_digest(one.sha256, sha256)), None)
        if found is None:
            raise Unauthenticated(
                f"the token (SHA-256 {sha256[:12]}...) is not one that this hub knows: ask whoever keeps its "
                "access file"
            )
        now = times.now()
        if found.expires and times.from_text(found.expires, "expires") <= now:
            raise Unauthenticated(
                f"token {found.name!r} expired at {found.expires} (the hub's clock says {times.to_text(now)}): ask for "
                "a new one"
            )
        return Caller(found.name, "token", self._grants(found.role, found.teams))

    def by_claims(self, name: str, subject: str, email: str, groups: Collection[str]) -> Caller:
        """Who a provider's word is about. Unauthenticated for somebody who is no member."""
        found = [one for one in self.member if one.is_one(subject, email, groups)]
        if not found:
            raise Unauthenticated(
                f"{name} signed in at the provider but is no member of this hub: have a [[member]] with their subject "
                f"({subject}), a verified e-mail address or one of their groups added to its access file"
            )
        grants = tuple(grant for one in found for grant in self._grants(one.role, one.teams))
        return Caller(name, "oidc", grants, frozenset(groups), email)

    def _grants(self, role: Role, teams: tuple[str, ...]) -> tuple[TeamGrant, ...]:
        return tuple(TeamGrant(role.value, name, (ALL,) if name == ALL else self.team[name].models) for name in teams)


def watch_people(path: Path) -> FileWatch[People]:
    """The access file as it is now; where it is broken, as it was before. Raises NotFound and InvalidInput at first."""
    return FileWatch([path], lambda: read_people(path))


def read_people(path: Path) -> People:
    """NotFound for a file that is not there, InvalidInput naming what is wrong in it."""
    try:
        document = read_toml(path, "access file")
    except NotFound as error:
        raise NotFound(f"the hub's access file {path} is missing: write it, docs/hub-access.md shows how") from error
    except OSError as error:
        raise InvalidInput(
            f"the hub's access file {path} cannot be read ({error.strerror}): let the hub read it"
        ) from error
    check_format(document, kind=FORMAT_KIND, version=VERSION, where=str(path))
    return read_config(People, document, f"the hub's access file {path}")
