"""Takes a servable back to the version that served before: loads it again, moves label `stable`, lets the others go.

In comes the servable, from a person or a monitor; out go the same changes as a push and a promotion make.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate_operators.steps.promote import promote
from tidegate_operators.steps.push import push
from tidegate_operators.steps.verdict_file import claimed_verdict
from tidegate_operators.steps.wanted import read_wanted
from tidegate_serving.contract.errors import FailedPrecondition, NotFound
from tidegate_serving.contract.repository import verdict_path, versions
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Label `stable` is on `id` again; `ended` are the versions that unloaded."""

    id: ServableId
    ended: tuple[int, ...]


def rollback(
    *, control: str, servable: str, version: int | None = None, timeout: float = 120.0, reason: str = ""
) -> RolledBack:
    """Back to `version`, or without one to the newest version that a verdict allows below the one that serves.

    Versions are looked for beside the directory of the one that serves. An admitted version loads again until it is
    revoked, so its verdict's expiry does not stand in the way. FailedPrecondition where nothing serves, NotFound
    where there is no earlier version; where the earlier one cannot be loaded, the present one keeps serving.
    """
    target = _find_target(control, servable, version)
    why = reason or f"roll back {servable} to {target.name}"
    pushed = push(directory=target, control=control, timeout=timeout, reason=why)
    promoted = promote(control=control, servable=servable, version=pushed.id.version, timeout=timeout, reason=why)
    return RolledBack(promoted.id, promoted.ended)


def _find_target(control: str, servable: str, version: int | None) -> Path:
    with ControlClient(control) as client:
        wanted = read_wanted(client, servable)
    serving = wanted.get(wanted.stable) if wanted.stable is not None else None
    if serving is None:
        raise FailedPrecondition(f"nothing serves under {servable!r}: push a version instead of rolling back")
    folder = serving.path.parent
    if version is None:
        return _previous(folder, ServableId(servable, serving.version))
    target = folder / str(version)
    if not target.is_dir():
        raise NotFound(f"{target} is missing: {servable}:{version} cannot be rolled back to, publish it again")
    return target


def _previous(folder: Path, serving: ServableId) -> Path:
    for number in reversed(versions(folder.parent, folder.name)):
        verdict = verdict_path(folder / str(number))
        if number < serving.version and verdict.is_file() and claimed_verdict(verdict).allowed:
            return folder / str(number)
    raise NotFound(
        f"{folder} holds no version that a verdict allows below {serving.version}: name the version to go back to"
    )
