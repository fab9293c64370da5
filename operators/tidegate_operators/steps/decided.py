"""What operators decided, for steps: the version that clients get because of it, and that a step cannot go on."""

from __future__ import annotations

from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control.status import OverrideStatus, ServableStatus
from tidegate_serving.control_client import ControlClient


def clients_get(status: ServableStatus) -> int | None:
    """The version that ordinary clients get, or are to get once it is loaded, None for none: what is pinned, else what
    label `stable` is on, or the newest without that label, and where that is blocked what took its place."""
    for one in status.overrides:
        if one.action == "pin":
            return one.version
    stable = status.desired.stable
    blocked = any(one.action == "block" and one.version == stable for one in status.overrides)
    return status.ordinary if blocked and status.ordinary is not None else stable


def check_not_blocked(client: ControlClient, identity: ServableId) -> None:
    """FailedPrecondition where an operator has blocked the version: it will not serve, and waiting would only take
    time."""
    status = client.status(identity.name).servable(identity.name)
    found = None if status is None else status.version(identity.version)
    if status is None or (found is not None and found.state not in (State.UNLOADING, State.END)):
        return  # a block of other files under the same number does not count
    for one in status.overrides:
        if one.action == "block" and one.version == identity.version:
            raise FailedPrecondition(
                f"{identity} was blocked by {_who(one)}: publish a new version, or run "
                f"`tidegate unblock {identity.name} {identity.version}` and release it again"
            )


def check_not_pinned(client: ControlClient, identity: ServableId) -> None:
    """FailedPrecondition where an operator has pinned ordinary traffic, so that a version gets no share of it."""
    status = client.status(identity.name).servable(identity.name)
    for one in () if status is None else status.overrides:
        if one.action == "pin":
            raise FailedPrecondition(
                f"{identity} gets no requests any more, so its canary ends: {one.text}, by {_who(one)}; release it "
                "again once that is over"
            )


def words_of(overrides: tuple[OverrideStatus, ...]) -> str:
    """Pins and blocks as the end of a sentence; empty for none."""
    return "".join(f"; {one.text}, by {_who(one)}" for one in overrides if one.action in ("pin", "block"))


def _who(decided: OverrideStatus) -> str:
    return f"{decided.requested_by} ({decided.reason or 'no reason given'})"
