"""Makes tokens for an engine's control port: the token for whoever asks, its line for the engine's access file.

Whoever operates an engine runs this, not whoever releases models.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tidegate_serving.connection import OTHERS_MAY_READ
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, PermissionRefused
from tidegate_serving.control.access.access_file import TokenLine, new_token, read_access, with_line
from tidegate_serving.control.access.grants import ALL_MODELS, Role
from tidegate_serving.files import hold, written_aside

_OTHERS_MAY_WRITE = 0o022
_SECRET, _FOR_THE_ENGINE = 0o600, 0o640


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token, which is nowhere else but in `token_file`, if one was named; `warnings` are about files' modes."""

    token: str
    line: TokenLine
    warnings: tuple[str, ...]


def make_token(
    *,
    name: str,
    role: Role,
    models: Sequence[str] = (ALL_MODELS,),
    days: float | None = None,
    access_file: Path | None = None,
    token_file: Path | None = None,
) -> NewToken:
    """Makes a token for models whose names match one of the patterns, and adds its line to `access_file`, which an
    engine that runs with it notices. `days` is how long it counts, None for ever.

    AlreadyExists for a token file that is there; InvalidInput for an access file that cannot be used,
    PermissionRefused for one that another user owns. Nothing is written then.
    """
    if days is not None and not 0 < days <= times.MOST_DAYS:
        raise InvalidInput(
            f"days is {days:g}: use more than 0 and at most {times.MOST_DAYS}, or None for a token that does not expire"
        )
    if token_file is not None and token_file.exists():
        raise AlreadyExists(f"token file {token_file} is there already: name another, or remove it")
    expires = None if days is None else times.now() + timedelta(days=days)
    token, line = new_token(name, role, tuple(models), expires)
    if token_file is not None:
        token_file.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(token_file) as aside:
            aside.touch(_SECRET)
            aside.write_text(f"{token}\n")
    try:
        warnings = [] if access_file is None else _add(access_file, line)
    except BaseException:
        if token_file is not None:
            token_file.unlink()
        raise
    return NewToken(token, line, tuple(warnings))


def _add(path: Path, line: TokenLine) -> list[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold(path.with_name(f".{path.name}.lock")):
        mode = _write(path, line)
    found = []
    if mode & _OTHERS_MAY_WRITE:
        found.append(f"{path} can be written by others, who could let themselves in: chmod go-w it")
    elif mode & OTHERS_MAY_READ == OTHERS_MAY_READ:
        found.append(f"{path} can be read by everybody on this machine, who see the names in it: chmod o-r it")
    return found


def _give(aside: Path, path: Path, owner: int, group: int) -> None:
    try:
        os.chown(aside, owner, group)
    except PermissionError as error:
        raise PermissionRefused(
            f"{path} belongs to user {owner} and group {group}, which would lose it: run this as that user or as root"
        ) from error


def _write(path: Path, line: TokenLine) -> int:
    """Adds the line, with owner and mode as they were; the mode."""
    text, mode, before = "", _FOR_THE_ENGINE, None
    if path.exists():
        read_access(path)
        text, before = path.read_text(encoding="utf-8"), path.stat()
        mode = before.st_mode & 0o777
    with written_aside(path) as aside:
        aside.touch(_SECRET)
        if before is not None and (before.st_uid, before.st_gid) != (aside.stat().st_uid, aside.stat().st_gid):
            _give(aside, path, before.st_uid, before.st_gid)
        aside.chmod(mode)
        aside.write_text(with_line(text, line), encoding="utf-8")
        read_access(aside)
    return mode
