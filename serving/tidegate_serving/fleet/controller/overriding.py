"""What operators decide about a model of a fleet: as in an engine, by what etcd has of the model. Its nodes obey it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.control import deciding
from tidegate_serving.control.deciding import Decided, Facts, Requester
from tidegate_serving.control.overrides import NO_OVERRIDES
from tidegate_serving.fleet.state.model import FleetModel

_SIMPLE: Mapping[str, Callable[[Facts, Requester], Decided]] = {
    "unpin": deciding.unpinned,
    "freeze": deciding.frozen,
    "unfreeze": deciding.unfrozen,
    "disable": deciding.disabled,
    "enable": deciding.enabled,
}


def decided(model: FleetModel, action: str, requester: Requester, request: Any) -> Decided:
    """The action of an `OperationRequest`, other than a rollback. NotFound for a model that the fleet does not know or
    a version that it never had, FailedPrecondition where another decision stands against it."""
    requester.check_named()
    if not model.desired.versions and model.overrides == NO_OVERRIDES:
        raise NotFound(f"the fleet knows no model {model.name!r}: push it first")
    facts = _facts(model)
    if action in _SIMPLE:
        return _SIMPLE[action](facts, requester)
    if action == "pin":
        return deciding.pinned(facts, requester, _known(model, request.pin.version))
    if action == "block":
        unpinned = replace(model, overrides=replace(model.overrides, pin=None)).wanted
        return deciding.blocked(replace(facts, desired=unpinned), requester, _known(model, request.block.version))
    if action == "unblock":
        return deciding.unblocked(facts, requester, request.unblock.version)
    if action == "split":
        split = request.split
        return deciding.divided(facts, requester, dict(split.shares), split.key, split.until_us)
    raise InvalidInput("the request names no action that a fleet knows: use a client of its version")


def _facts(model: FleetModel) -> Facts:
    wanted, serving = model.wanted, model.serving.stable if model.serving else None
    return Facts(model.name, model.overrides, wanted, wanted.numbers, serving, model.earlier)


def _known(model: FleetModel, version: int) -> VersionReference:
    found = model.known(version)
    if found is None:
        raise NotFound(f"{model.name}:{version} was never pushed to this fleet: push it first")
    return found
