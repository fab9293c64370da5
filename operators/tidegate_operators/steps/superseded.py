"""Tells a release that another one took its place: its version was taken out meanwhile, or a newer one serves.

Of releases of one model that run at once the one that promotes first wins, and of canaries at once that of the newest
version; the others end as superseded, and say by what.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate_operators.steps.decided import check_not_blocked, clients_get, words_of
from tidegate_serving.contract.desired_state import STABLE, DesiredState, VersionReference
from tidegate_serving.contract.errors import Cancelled, DeadlinePassed, FailedPrecondition, Superseded
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient, ServableStatus

_LOOK_SECONDS = 2.0
_AGAIN_SECONDS = 0.05


def require_live(client: ControlClient, desired: DesiredState, version: int, purpose: str) -> VersionReference:
    """The version as it is desired. Superseded where it was live and others have taken it out, FailedPrecondition where
    it never was; `purpose` ends the sentence on what to do, such as `before it is promoted`."""
    found = desired.version(version)
    if found is not None:
        return found
    name = desired.servable
    status = client.status(name).servable(name)
    serving = None if status is None else clients_get(status)
    was = None if status is None else status.version(version)
    if was is not None and was.error_code in ("", Cancelled.code) and serving is not None:
        raise Superseded(
            f"{name}:{version} is not live any more, {name}:{serving} serves: another release was quicker, or somebody "
            f"took it out (`tidegate events {name}` tells who and why); push it again {purpose}, if it is still wanted"
        )
    live = ", ".join(map(str, sorted(desired.numbers))) or "no version"
    raise FailedPrecondition(f"{name}:{version} is not live (live: {live}): push it {purpose}")


def check_not_overtaken(client: ControlClient, identity: ServableId, judged_against: int | None) -> None:
    """Superseded where clients get a newer version than this one, and it is not the one that this one was judged
    against.

    `judged_against` is the version that served at that time, 0 for none; None where nobody knows, and nothing is
    checked.
    """
    if judged_against is None:
        return
    name, version = identity.name, identity.version
    status = client.status(name).servable(name)
    serving = None if status is None else clients_get(status)
    if serving is None or serving in (judged_against, version) or serving < version:
        return
    before = f"{name}:{judged_against} served" if judged_against else "nothing served"
    raise Superseded(
        f"{name}:{version} was judged while {before}, and meanwhile the newer {name}:{serving} was promoted: release a "
        "newer version, or validate this one again if it is to serve all the same"
    )


def check_shadow_is_free(desired: DesiredState, version: int) -> None:
    """Superseded where a newer version has the shadow."""
    other = desired.shadow
    if other is not None and other.version > version:
        name = desired.servable
        raise Superseded(
            f"the canary of the newer {name}:{other.version} is under way, so {name}:{version} gets none: release it "
            f"after that, if it is still wanted, or take {name}:{other.version} out if nobody waits for it any more"
        )


def check_not_promoted(desired: DesiredState, version: int) -> None:
    """Superseded where somebody promoted a version while its canary ran, as another release of it does."""
    if desired.labels.get(STABLE) == version:
        raise Superseded(
            f"{desired.servable}:{version} was promoted by {desired.requested_by} ({desired.reason}) before its canary "
            "ended: it serves, and nothing is left to do unless it should not"
        )


def check_still_promoted(status: ServableStatus | None, identity: ServableId) -> None:
    """Superseded where another version was promoted since this one was, as by a rollback."""
    if status is not None and status.desired.stable != identity.version:
        desired, name = status.desired, identity.name
        raise Superseded(
            f"{identity} was promoted, and {name}:{desired.stable} took its place since, by {desired.requested_by} "
            f"({desired.reason or 'no reason given'}): `tidegate events {name}` tells what happened"
        )


def check_shadow_is_ours(client: ControlClient, identity: ServableId) -> None:
    """Superseded where the version is not live any more, was promoted meanwhile, or its shadow is another's."""
    name, version = identity.name, identity.version
    desired = client.desired(name)
    require_live(client, desired, version, "for a canary of its own")
    check_not_promoted(desired, version)
    check_shadow_is_free(desired, version)
    if desired.shadow is None or desired.shadow.version != version:
        raise Superseded(
            f"the shadow of {identity} was turned off by {desired.requested_by} ({desired.reason}): push it again for "
            "a canary of its own"
        )


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
            require_live(client, client.desired(identity.name), identity.version, "to load it")
            check_not_blocked(client, identity)
            if time.monotonic() >= deadline:
                raise
            if isinstance(error, Cancelled):  # something of it was decided while it loaded: it loads anew
                time.sleep(_AGAIN_SECONDS)


def wait_serving(client: ControlClient, identity: ServableId, deadline: float) -> None:
    """Waits until ordinary clients get an AVAILABLE version that they are to get, which takes a fleet's controller a
    moment. FailedPrecondition where it is blocked, DeadlinePassed at `deadline`, by the monotonic clock in seconds."""
    name, version = identity.name, identity.version
    while True:
        check_not_blocked(client, identity)
        status = client.status(name).servable(name)
        if status is None or status.ordinary == version or clients_get(status) != version:
            return
        if time.monotonic() >= deadline:
            now = "no version" if status.ordinary is None else f"version {status.ordinary}"
            raise DeadlinePassed(f"ordinary requests of {name!r} still go to {now} and not to {identity}: wait longer")
        time.sleep(_AGAIN_SECONDS)


def wait_ended(
    client: ControlClient,
    identity: ServableId,
    deadline: float,
    look: Callable[[ServableStatus | None], None] = lambda status: None,
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
            status = client.status(name).servable(name)
            look(status)
            if status is None or number in {*status.kept, *status.desired.numbers}:
                return False
            if time.monotonic() >= deadline:
                raise


def check_beside(client: ControlClient, identity: ServableId, primary: int) -> None:
    """FailedPrecondition where ordinary requests go to another version by now than the one that this one is tried
    beside, as after a pin: there are no more answers to compare. Superseded where another release did that."""
    name = identity.name
    status = client.status(name).servable(name)
    if status is None or status.ordinary in (None, primary) or clients_get(status) == primary:
        return  # or they will once it is loaded
    require_live(client, status.desired, identity.version, "for a canary of its own")
    check_not_promoted(status.desired, identity.version)
    raise FailedPrecondition(
        f"ordinary requests of {name!r} go to version {status.ordinary} and not any more to version {primary}, which "
        f"{identity} was tried beside{words_of(status.overrides)}: release it again once that is as it should be"
    )
