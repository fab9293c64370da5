"""Takes a servable back to the version that served before, in one call to the engine, and waits until it does.

The engine moves label `stable` as soon as the version is loaded, at once where it was kept, and lets the others go.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tidegate_operators.steps.change_desired import REQUESTED_BY
from tidegate_operators.steps.engine_group import engines_of, on_each
from tidegate_operators.steps.waits import wait_ended, wait_serving
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import FailedPrecondition, TidegateError
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient, Outcome, ServableStatus
from tidegate_serving.journal.entry import Kind, is_by


@dataclass(frozen=True, slots=True)
class Rollback:
    """Ordinary clients get `id` again; `ended` are the versions that unloaded, ascending."""

    id: ServableId
    ended: tuple[int, ...]
    sentence: str = ""


def rollback(
    *,
    control: str | EngineConnection,
    servable: str,
    version: int | None = None,
    from_version: int | None = None,
    once: bool = False,
    timeout: float = 120.0,
    reason: str = "",
    requested_by: str = REQUESTED_BY,
) -> Rollback:
    """Back to `version`, or without one to what ordinary clients got before; where the engine does not remember that,
    to the newest older version beside the present one that a verdict lets in.

    `from_version` is what shall not serve: where it does not, nothing changes. `once` is for a task that may run again:
    what the engine's journal has of this `requested_by` for this `reason` is not done a second time.

    An admitted version loads again until it is revoked, so its verdict's expiry does not stand in the way.
    FailedPrecondition where nothing serves or the servable is frozen, NotFound where there is no earlier version. Where
    the earlier one does not load, its error is raised: the present one keeps serving, and the engine goes on trying.
    In a group every engine that answers goes back, whatever the others do; the error names those that have not.
    """
    why = reason or f"roll back {servable}"
    engines = engines_of(control)

    def tell(client: ControlClient) -> Outcome:
        done = _done_before(client, servable, requested_by, why) if once else None
        return done or client.rollback(
            servable, version, from_version=from_version, requested_by=requested_by, reason=why
        )

    return on_each(engines, lambda engine: _roll_back(engine, servable, timeout, tell)).all()[0]


def _roll_back(
    engine: EngineConnection, servable: str, timeout: float, tell: Callable[[ControlClient], Outcome]
) -> Rollback:
    deadline = time.monotonic() + timeout
    with ControlClient(engine) as client:
        before = client.servable(servable)
        outcome = tell(client)
        target = _target(servable, outcome)
        try:
            client.wait_until(servable, target, State.AVAILABLE, timeout)
        except TidegateError as error:
            serving = f"version {outcome.from_version}" if outcome.from_version is not None else "what served before"
            raise type(error)(f"{error.message}; {serving} keeps serving, and the engine goes on trying") from error
        wait_serving(client, ServableId(servable, target), deadline)
        leaving = _leaving(before, client.servable(servable), target)
        ended = [old for old in leaving if wait_ended(client, ServableId(servable, old), deadline)]
    return Rollback(ServableId(servable, target), tuple(ended), outcome.sentence)


def _done_before(client: ControlClient, servable: str, requested_by: str, reason: str) -> Outcome | None:
    """What became of the same rollback, asked for before: ordinary clients are meant for a version by now."""
    wanted = (Kind.CONTROL, "rollback", reason)
    journal = client.journal(servable=servable)
    if not any(
        (entry.kind, entry.action, entry.reason) == wanted and is_by(entry.requested_by, requested_by)
        for entry in journal
    ):
        return None
    stable = client.desired(servable).stable
    return Outcome(f"{servable} went back before, for {reason!r}, and is on version {stable}", False, None, stable)


def _target(servable: str, outcome: Outcome) -> int:
    if outcome.to_version is None:
        raise FailedPrecondition(f"the engine does not say where {servable} went: see `tidegate status`")
    return outcome.to_version


def _leaving(before: ServableStatus, now: ServableStatus, target: int) -> tuple[int, ...]:
    """What was there and is neither wanted nor kept any more."""
    present = {entry.version for entry in before.versions if entry.state is State.AVAILABLE}
    stays = {target, *now.desired.numbers, *now.desired.unusable, *now.kept}
    return tuple(sorted(present - stays))
