"""Changes what an engine should serve of one servable: reads where it stands, edits what is desired, and hands it back.

The engine takes it only where nobody else changed it meanwhile, so that two releases at once cannot overwrite each
other; where somebody did, it is read and edited again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidegate_serving.contract.desired_state import STABLE, DesiredState
from tidegate_serving.contract.errors import Conflict, DeadlinePassed
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient, ServableStatus
from tidegate_serving.lifecycle.retry import RetryPauses

REQUESTED_BY = "tidegate"
_UNLOAD_SECONDS = 30.0
_TRIES = 40
_PAUSES = RetryPauses(first=0.01, most=1.0)

Edit = Callable[[ServableStatus], DesiredState]


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was accepted: what was desired before, what is now, and the revision that this made."""

    before: DesiredState
    after: DesiredState
    revision: int


def change(control: ControlClient, servable: str, edit: Edit, reason: str, requested_by: str = REQUESTED_BY) -> Change:
    """Tells the engine what `edit` makes of where the servable stands now; where somebody else was quicker, looks
    and edits again, after pauses that grow.

    Raises what `edit` raises, and the engine's refusal, naming the file; then nothing has changed. Conflict where
    others were quicker each time.
    """
    for failures in range(1, _TRIES):
        with contextlib.suppress(Conflict):
            return _change_once(control, servable, edit, reason, requested_by)
        time.sleep(_PAUSES.pause(failures))
    return _change_once(control, servable, edit, reason, requested_by)


def _change_once(control: ControlClient, servable: str, edit: Edit, reason: str, requested_by: str) -> Change:
    status = control.servable(servable)
    before, after = status.desired, replace(edit(status), requested_by=requested_by, reason=reason)
    return Change(before, after, control.set_desired_state(after, before.revision))


def give_up(control: ControlClient, servable: str, version: int, reason: str) -> None:
    """Wants one version no more and waits until it has unloaded, so that whoever reads next does not see it any more.

    One that clients get stays, as after somebody promoted it or blocked the one before: only a promotion or a rollback
    takes that from them. A request that is under way may hold the version longer than is worth waiting for; it then
    ends later, by itself.
    """

    def unless_served(status: ServableStatus) -> DesiredState:
        desired = status.desired
        took_over = status.ordinary == version and status.clients_get == version
        if desired.labels.get(STABLE) != version and not took_over:
            return desired.without(version)
        shadowed = desired.shadow is not None and desired.shadow.version == version
        return replace(desired, shadow=None) if shadowed else desired

    status = control.servable(servable)
    desired = status.desired
    if desired.version(version) is not None and unless_served(status) != desired:
        desired = change(control, servable, unless_served, reason).after
    if desired.version(version) is not None:
        return
    with contextlib.suppress(DeadlinePassed):
        control.wait_until(servable, version, State.END, _UNLOAD_SECONDS)
