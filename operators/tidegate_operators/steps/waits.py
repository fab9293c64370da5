"""What steps wait for in one engine: a version is there, ordinary clients get it, one that had to go has gone.

Each wait ends as soon as it would be in vain, and says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate_operators.steps.decided import check_not_blocked
from tidegate_operators.steps.superseded import require_live
from tidegate_serving.contract.errors import Cancelled, DeadlinePassed
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient, ServableStatus

_LOOK_SECONDS = 2.0
_AGAIN_SECONDS = 0.05


def wait_available(client: ControlClient, identity: ServableId, timeout: float, waited: float = 0.0) -> None:
    """Waits until the version is AVAILABLE. Its own error where it does not load, Superseded where others have taken it
    out meanwhile, FailedPrecondition where it is blocked, DeadlinePassed after `timeout` seconds, which counts those
    that were `waited` before."""
    deadline = time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        try:
            look = max(min(left, _LOOK_SECONDS), 0.0)
            before = waited + timeout - left
            client.wait_until(identity.name, identity.version, State.AVAILABLE, look, waited=before)
            return
        except (DeadlinePassed, Cancelled) as error:
            status = client.servable(identity.name)
            require_live(status, identity.version, "to load it")
            check_not_blocked(status, identity.version)
            if time.monotonic() >= deadline:
                raise
            if isinstance(error, Cancelled):  # something of it was decided while it loaded: it loads anew
                time.sleep(_AGAIN_SECONDS)


def wait_serving(client: ControlClient, identity: ServableId, deadline: float) -> None:
    """Waits until ordinary clients get an AVAILABLE version that they are to get, which takes a fleet's controller a
    moment. FailedPrecondition where it is blocked, DeadlinePassed at `deadline`, by the monotonic clock in seconds."""
    name, version = identity.name, identity.version
    while True:
        status = client.servable(name)
        check_not_blocked(status, version)
        if status.ordinary == version or status.clients_get != version:
            return
        if time.monotonic() >= deadline:
            now = "no version" if status.ordinary is None else f"version {status.ordinary}"
            raise DeadlinePassed(f"ordinary requests of {name!r} still go to {now} and not to {identity}: wait longer")
        time.sleep(_AGAIN_SECONDS)


def wait_ended(
    client: ControlClient,
    identity: ServableId,
    deadline: float,
    look: Callable[[ServableStatus], None] = lambda status: None,
) -> bool:
    """Waits until a version that another one took the place of is END, and says so; False where somebody wants it
    again, as by a pin. DeadlinePassed at `deadline`, by the monotonic clock in seconds; `look` may raise what ends the
    wait before."""
    name, number = identity.name, identity.version
    began = time.monotonic()
    while True:
        try:
            now = time.monotonic()
            client.wait_until(name, number, State.END, max(min(deadline - now, _LOOK_SECONDS), 0.0), waited=now - began)
            return True
        except DeadlinePassed:
            status = client.servable(name)
            look(status)
            if number in {*status.kept, *status.desired.numbers}:
                return False
            if status.version(number) is None:  # an engine that started anew does not know it any more
                return True
            if time.monotonic() >= deadline:
                raise
