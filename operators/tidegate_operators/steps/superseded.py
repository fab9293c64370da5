"""Tells a release that another one took its place: its version was taken out meanwhile, or a newer one serves.

Of releases of one model that run at once the one that promotes first wins, and of canaries at once that of the newest
version; the others end as superseded, and say by what.
"""

from __future__ import annotations

from tidegate_operators.steps.decided import words_of
from tidegate_serving.contract.desired_state import STABLE, VersionReference
from tidegate_serving.contract.errors import Cancelled, FailedPrecondition, Superseded
from tidegate_serving.control_client import ServableStatus

_FOR_A_CANARY = "for a canary of its own"


def require_live(status: ServableStatus, version: int, purpose: str) -> VersionReference:
    """The version as it is desired. Superseded where it was live and others have taken it out, FailedPrecondition where
    it never was; `purpose` ends the sentence on what to do, such as `before it is promoted`."""
    found = status.desired.version(version)
    if found is not None:
        return found
    name, serving, was = status.servable, status.clients_get, status.version(version)
    if was is not None and was.error_code in ("", Cancelled.code) and serving is not None:
        raise Superseded(
            f"{name}:{version} is not live any more, {name}:{serving} serves: another release was quicker, or somebody "
            f"took it out (`tidegate events {name}` tells who and why); push it again {purpose}, if it is still wanted"
        )
    live = ", ".join(map(str, sorted(status.desired.numbers))) or "no version"
    raise FailedPrecondition(f"{name}:{version} is not live (live: {live}): push it {purpose}")


def check_not_overtaken(status: ServableStatus, version: int, judged_against: int | None) -> None:
    """Superseded where clients get a newer version than this one, and it is not the one that this one was judged
    against.

    `judged_against` is the version that served at that time, 0 for none; None where nobody knows, and nothing is
    checked.
    """
    if judged_against is None:
        return
    name, serving = status.servable, status.clients_get
    if serving is None or serving in (judged_against, version) or serving < version:
        return
    before = f"{name}:{judged_against} served" if judged_against else "nothing served"
    raise Superseded(
        f"{name}:{version} was judged while {before}, and meanwhile the newer {name}:{serving} was promoted: release a "
        "newer version, or validate this one again if it is to serve all the same"
    )


def check_shadow_is_free(status: ServableStatus, version: int) -> None:
    """Superseded where a newer version has the shadow."""
    other = status.desired.shadow
    if other is not None and other.version > version:
        name = status.servable
        raise Superseded(
            f"the canary of the newer {name}:{other.version} is under way, so {name}:{version} gets none: release it "
            f"after that, if it is still wanted, or take {name}:{other.version} out if nobody waits for it any more"
        )


def check_not_promoted(status: ServableStatus, version: int) -> None:
    """Superseded where somebody promoted a version while its canary ran, as another release of it does."""
    desired = status.desired
    if desired.labels.get(STABLE) == version:
        raise Superseded(
            f"{status.servable}:{version} was promoted by {desired.requested_by} ({desired.reason}) before its canary "
            "ended: it serves, and nothing is left to do unless it should not"
        )


def check_still_promoted(status: ServableStatus, version: int) -> None:
    """Superseded where this version was promoted and does not have that place any more: another was promoted since, as
    by a rollback, or all were retired."""
    desired, name = status.desired, status.servable
    if desired.stable != version:
        since = "was taken out" if desired.stable is None else f"{name}:{desired.stable} took its place"
        raise Superseded(
            f"{name}:{version} was promoted, and {since} since, by {desired.requested_by} "
            f"({desired.reason or 'no reason given'}): `tidegate events {name}` tells what happened"
        )


def check_shadow_is_ours(status: ServableStatus, version: int) -> None:
    """Superseded where the version is not live any more, was promoted meanwhile, or its shadow is another's."""
    require_live(status, version, _FOR_A_CANARY)
    check_not_promoted(status, version)
    check_shadow_is_free(status, version)
    desired = status.desired
    if desired.shadow is None or desired.shadow.version != version:
        raise Superseded(
            f"the shadow of {status.servable}:{version} was turned off by {desired.requested_by} ({desired.reason}): "
            f"push it again {_FOR_A_CANARY}"
        )


def check_beside(status: ServableStatus, version: int, primary: int) -> None:
    """FailedPrecondition where ordinary requests go to another version by now than the one that this one is tried
    beside, as after a pin: there are no more answers to compare. Superseded where another release did that."""
    if status.ordinary in (None, primary) or status.clients_get == primary:
        return  # or they will once it is loaded
    require_live(status, version, _FOR_A_CANARY)
    check_not_promoted(status, version)
    raise _not_beside(status, version, status.ordinary, primary)


def check_other_gets_requests(status: ServableStatus, version: int) -> None:
    """FailedPrecondition where ordinary requests are not for the version that is desired as stable but for this one, as
    after a pin of it, or for none: there is nothing to compare it with, although it is no first version."""
    if status.clients_get in (None, version) and status.desired.stable not in (None, version):
        raise _not_beside(status, version, status.clients_get, status.desired.stable)


def _not_beside(status: ServableStatus, version: int, ordinary: int | None, primary: int | None) -> FailedPrecondition:
    name, now = status.servable, "no version" if ordinary is None else f"version {ordinary}"
    return FailedPrecondition(
        f"ordinary requests of {name!r} go to {now} and not any more to version {primary}, which {name}:{version} was "
        f"tried beside{words_of(status.overrides)}: release it again once that is as it should be"
    )
