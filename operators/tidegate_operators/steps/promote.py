"""The promote step: moves label `stable` to a version and lets the others go, in one change, and waits for that."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidegate_operators.steps.canary_traffic import end_split
from tidegate_operators.steps.change_desired import REQUESTED_BY, Change, change
from tidegate_operators.steps.decided import check_not_blocked
from tidegate_operators.steps.engine_group import engines_of, on_each
from tidegate_operators.steps.superseded import check_still_promoted, require_live
from tidegate_operators.steps.waits import wait_available, wait_ended, wait_serving
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient, ServableStatus

_GOING = (State.AVAILABLE, State.UNLOADING)
_PURPOSE = "before it is promoted"


@dataclass(frozen=True, slots=True)
class Promotion:
    """Label `stable` is on `id`; `ended` are the versions that unloaded, ascending."""

    id: ServableId
    ended: tuple[int, ...]
    revision: int


def promote(
    *,
    control: str | EngineConnection,
    servable: str,
    version: int,
    timeout: float = 120.0,
    reason: str = "",
    keep_previous: bool | None = None,
    requested_by: str = REQUESTED_BY,
) -> Promotion:
    """Makes a live version the one that ordinary clients get, and waits until the others are END.

    The label moves in the same change that stops aspiring the others, so no request falls between them; the split that
    a canary in traffic left ends after that. `timeout` in seconds covers the load, where that is not over, and all
    unloads. With `keep_previous` the version that served before stays loaded, so that a rollback takes effect at once;
    None leaves that as it was. A version that somebody wants again meanwhile, as by a pin, is not waited for.
    Superseded where the version is not live any more or another was promoted meanwhile, FailedPrecondition where it
    never was live or is blocked, its own error where it does not load, DeadlinePassed where one does not load or end.

    In a group nothing begins before every engine has the version AVAILABLE: the error names those that have not. An
    error later names those that were not promoted; the same call again promotes these too.
    """
    deadline = time.monotonic() + timeout

    def edit(status: ServableStatus) -> DesiredState:
        require_live(status, version, _PURPOSE)
        check_not_blocked(status, version)
        desired = status.desired
        keep = desired.keep_previous if keep_previous is None else keep_previous
        return replace(desired.promoting(version), keep_previous=keep)

    engines, why = engines_of(control), reason or f"promote {servable}:{version}"
    if len(engines) > 1:
        on_each(engines, lambda engine: _wait_ready(engine, servable, version, deadline)).all(
            f"the promotion of {servable}:{version} has not begun"
        )

    def tell(client: ControlClient) -> Change:
        return change(client, servable, edit, why, requested_by)

    return on_each(engines, lambda engine: _promote_in(engine, servable, version, deadline, tell)).all()[0]


def _wait_ready(engine: EngineConnection, servable: str, version: int, deadline: float) -> None:
    """No engine of a group changes for its clients before all of them can."""
    with ControlClient(engine) as client:
        require_live(client.servable(servable), version, _PURPOSE)
        wait_available(client, ServableId(servable, version), max(deadline - time.monotonic(), 0.0))


def _promote_in(
    engine: EngineConnection,
    servable: str,
    version: int,
    deadline: float,
    tell: Callable[[ControlClient], Change],
) -> Promotion:
    identity = ServableId(servable, version)

    def look(status: ServableStatus) -> None:
        check_still_promoted(status, version)

    with ControlClient(engine) as client:
        promoted = tell(client)
        wait_available(client, identity, max(deadline - time.monotonic(), 0.0))
        end_split(client, identity, f"{identity} was promoted")
        wait_serving(client, identity, deadline)
        status = client.servable(servable)
        look(status)
        leaving = _leaving(promoted.before, status, version)
        ended = [old for old in leaving if wait_ended(client, ServableId(servable, old), deadline, look)]
        look(client.servable(servable))
    return Promotion(identity, tuple(ended), promoted.revision)


def _leaving(before: DesiredState, now: ServableStatus, version: int) -> tuple[int, ...]:
    """What was wanted before, and what a promotion that was killed has left unloading, without what is kept."""
    going = {one.version for one in now.versions if one.state in _GOING}
    return tuple(sorted((before.numbers | going) - {version, *now.kept} - now.desired.numbers))
