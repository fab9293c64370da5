"""Takes a servable out of an engine altogether: nothing of it is wanted any more, and its versions unload."""

from __future__ import annotations

import time
from dataclasses import replace

from tidegate_operators.steps.change_desired import REQUESTED_BY, change
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient


def retire(
    *,
    control: str | EngineConnection,
    servable: str,
    timeout: float = 120.0,
    reason: str = "",
    requested_by: str = REQUESTED_BY,
) -> tuple[int, ...]:
    """Wants no version any more and waits until all have unloaded; their numbers, none where nothing was wanted.

    Files and verdicts stay in the repository. `timeout` in seconds; DeadlinePassed where one does not end.
    """
    deadline = time.monotonic() + timeout
    with ControlClient(control) as client:
        if not client.desired(servable).is_anything:
            return ()
        retired = change(
            client,
            servable,
            lambda status: replace(status.desired, versions=(), labels={}, shadow=None, unusable={}),
            reason or f"retire {servable}",
            requested_by,
        )
        for version in sorted(retired.before.numbers):
            client.wait_until(servable, version, State.END, max(deadline - time.monotonic(), 0.0))
    return tuple(sorted(retired.before.numbers))
