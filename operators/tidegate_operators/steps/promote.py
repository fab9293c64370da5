"""Moves label `stable` to a version and lets the others go, in one change, and waits until they have unloaded.

In comes the servable and the version that passed its canary; out goes the new wanted set to the engine's RPC Source.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tidegate_operators.steps.wanted import Wanted, read_wanted, set_wanted
from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient


@dataclass(frozen=True, slots=True)
class Promoted:
    """Label `stable` is on `id`; `ended` are the versions that unloaded, ascending."""

    id: ServableId
    ended: tuple[int, ...]
    revision: int


def promote(*, control: str, servable: str, version: int, timeout: float = 120.0, reason: str = "") -> Promoted:
    """Makes a live version the one that ordinary clients get, and waits until all others are END.

    The label moves in the same change that stops aspiring the others, so no request falls between them. `timeout` in
    seconds covers all unloads. FailedPrecondition where the version is not live, DeadlinePassed where one does not end.
    """
    deadline = time.monotonic() + timeout
    with ControlClient(control) as client:
        wanted = read_wanted(client, servable)
        _check_is_live(wanted, version)
        leaving = tuple(sorted(entry.version for entry in wanted.versions if entry.version != version))
        revision = set_wanted(client, wanted.promoting(version), reason or f"promote {servable}:{version}")
        for old in leaving:
            client.wait_until(servable, old, State.END, max(deadline - time.monotonic(), 0.0))
    return Promoted(ServableId(servable, version), leaving, revision)


def _check_is_live(wanted: Wanted, version: int) -> None:
    if wanted.get(version) is None:
        live = ", ".join(str(entry.version) for entry in wanted.versions) or "no version"
        raise FailedPrecondition(
            f"{wanted.servable}:{version} is not live (live: {live}): push it before it is promoted"
        )
