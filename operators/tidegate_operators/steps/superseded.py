"""Tells a release that another one took its place: its version was taken out meanwhile, or a newer one serves.

Of releases of one model that run at once the one that promotes first wins, and of canaries at once that of the newest
version; the others end as superseded, and say by what.
"""

from __future__ import annotations

import time

from tidegate_serving.contract.desired_state import STABLE, DesiredState, VersionReference
from tidegate_serving.contract.errors import DeadlinePassed, FailedPrecondition, Superseded
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient

_LOOK_SECONDS = 2.0


def require_live(client: ControlClient, desired: DesiredState, version: int, purpose: str) -> VersionReference:
    """The version as it is desired. Superseded where it was live and others have taken it out, FailedPrecondition where
    it never was; `purpose` ends the sentence on what to do, such as `before it is promoted`."""
    found = desired.version(version)
    if found is not None:
        return found
    name, serving = desired.servable, desired.stable
    status = client.status(name).servable(name)
    was = None if status is None else status.version(version)
    if was is not None and not was.error_code and serving is not None:
        raise Superseded(
            f"{name}:{version} is not live any more, {name}:{serving} serves: another release was quicker, or somebody "
            f"took it out (`tidegate events {name}` tells who and why); push it again {purpose}, if it is still wanted"
        )
    live = ", ".join(map(str, sorted(desired.numbers))) or "no version"
    raise FailedPrecondition(f"{name}:{version} is not live (live: {live}): push it {purpose}")


def check_not_overtaken(desired: DesiredState, version: int, judged_against: int | None) -> None:
    """Superseded where a newer version serves than this one, and it is not the one that this one was judged against.

    `judged_against` is the version that served at that time, 0 for none; None where nobody knows, and nothing is
    checked.
    """
    serving = desired.stable
    if judged_against is None or serving is None or serving in (judged_against, version) or serving < version:
        return
    name = desired.servable
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
    out meanwhile, DeadlinePassed after `timeout` seconds, which counts those that were `waited` before."""
    deadline = time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        try:
            look = max(min(left, _LOOK_SECONDS), 0.0)
            before = waited + timeout - left
            client.wait_until(identity.name, identity.version, State.AVAILABLE, look, waited=before)
            return
        except DeadlinePassed:
            require_live(client, client.desired(identity.name), identity.version, "to load it")
            if time.monotonic() >= deadline:
                raise
