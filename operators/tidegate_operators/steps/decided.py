"""What operators decided and a step cannot go on against: blocks and pins, in words."""

from __future__ import annotations

from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.servable import State
from tidegate_serving.control.status import OverrideStatus, ServableStatus


def check_not_blocked(status: ServableStatus, version: int) -> None:
    """FailedPrecondition where an operator has blocked the version: it will not serve, and waiting would only take
    time."""
    found, name = status.version(version), status.servable
    if found is not None and found.state not in (State.UNLOADING, State.END):
        return  # a block of other files under the same number does not count
    for one in status.overrides_of("block"):
        if one.version == version:
            raise FailedPrecondition(
                f"{name}:{version} was blocked by {_who(one)}: publish a new version, or run "
                f"`tidegate unblock {name} {version}` and release it again"
            )


def check_not_pinned(status: ServableStatus, version: int) -> None:
    """FailedPrecondition where an operator has pinned ordinary traffic, so that a version gets no share of it."""
    for one in status.overrides_of("pin"):
        raise FailedPrecondition(
            f"{status.servable}:{version} gets no requests any more, so its canary ends: {one.text}, by {_who(one)}; "
            "release it again once that is over"
        )


def words_of(overrides: tuple[OverrideStatus, ...]) -> str:
    """Pins and blocks as the end of a sentence; empty for none."""
    return "".join(f"; {one.text}, by {_who(one)}" for one in overrides if one.action in ("pin", "block"))


def _who(decided: OverrideStatus) -> str:
    return f"{decided.requested_by} ({decided.reason or 'no reason given'})"
