"""What operators can decide about a model of a fleet, as pure functions: the overrides after it, and the outcome.

The rules are those of one engine; the fleet's model has what was decided, and its nodes obey it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidegate_serving.contract.desired_state import DesiredState, Split, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotFound
from tidegate_serving.control.operations import Requester
from tidegate_serving.control.overrides import NO_OVERRIDES, Block, Freeze, Outcome, Overrides, Pin, SplitOverride
from tidegate_serving.fleet.state.model import FleetModel

_Decided = tuple[Overrides, Outcome]
_WHILE_FROZEN = ("freeze", "unfreeze", "disable", "enable", "block")


def decided(model: FleetModel, action: str, requester: Requester, request: Any) -> _Decided:
    """The action of an `OperationRequest`, other than a rollback. NotFound for a model that the fleet does not know or
    a version that it never had, FailedPrecondition where another decision stands against it."""
    if not requester.requested_by:
        raise InvalidInput("nobody is named who asks: say who in requested_by")
    if not model.desired.versions and model.overrides == NO_OVERRIDES:
        raise NotFound(f"the fleet knows no model {model.name!r}: push it first")
    if action not in _WHILE_FROZEN:
        _check_thawed(model)
    simple: Mapping[str, Callable[[FleetModel, Requester], _Decided]] = {
        "unpin": _unpin,
        "freeze": _freeze,
        "unfreeze": _unfreeze,
        "disable": _disable,
        "enable": _enable,
    }
    if action in simple:
        return simple[action](model, requester)
    if action == "pin":
        return _pin(model, requester, request.pin.version)
    if action == "block":
        return _block(model, requester, request.block.version)
    if action == "unblock":
        return _unblock(model, request.unblock.version)
    if action == "split":
        return _split(model, requester, dict(request.split.shares), request.split.key)
    raise InvalidInput("the request names no action that a fleet knows: use a client of its version")


def check_permitted(model: FleetModel, desired: DesiredState) -> None:
    """FailedPrecondition where a desired state that somebody pushes goes against a decision."""
    _check_thawed(model)
    for block in filter(None, map(model.overrides.block_of, desired.versions)):
        raise FailedPrecondition(
            f"{model.name}:{block.version} was blocked by {block.note.requested_by} ({block.note.reason}): "
            f"publish a new version, or run `tidegate unblock {model.name} {block.version}`"
        )


def _pin(model: FleetModel, requester: Requester, version: int) -> _Decided:
    found, overrides = _known(model, version), model.overrides
    if (block := overrides.block_of(found)) is not None:
        raise FailedPrecondition(
            f"{model.name}:{version} was blocked ({block.note.reason}): unblock it first, or name another"
        )
    now = model.serving.stable if model.serving else None
    outcome = Outcome(
        f"ordinary traffic of {model.name} stays on version {version}", True, None if now == version else now, version
    )
    if overrides.pin is not None and overrides.pin.version == found:
        return overrides, outcome
    return replace(overrides, pin=Pin(found, requester.note()), split=None), outcome


def _unpin(model: FleetModel, _requester: Requester) -> _Decided:
    outcome = Outcome(f"ordinary traffic of {model.name} follows what was pushed again", True)
    return replace(model.overrides, pin=None), outcome


def _freeze(model: FleetModel, requester: Requester) -> _Decided:
    freeze = model.overrides.freeze or Freeze(model.wanted, requester.note())
    return replace(model.overrides, freeze=freeze), Outcome(f"{model.name} is frozen as it is", True)


def _unfreeze(model: FleetModel, _requester: Requester) -> _Decided:
    return replace(model.overrides, freeze=None), Outcome(f"{model.name} may change again", True)


def _disable(model: FleetModel, requester: Requester) -> _Decided:
    disabled = model.overrides.disabled or requester.note()
    return replace(model.overrides, disabled=disabled), Outcome(f"{model.name} answers no request", True)


def _enable(model: FleetModel, _requester: Requester) -> _Decided:
    return replace(model.overrides, disabled=None), Outcome(f"{model.name} answers again", True)


def _split(model: FleetModel, requester: Requester, shares: Mapping[int, float], key: str) -> _Decided:
    """Without shares it ends."""
    name, overrides = model.name, model.overrides
    if not shares:
        return replace(overrides, split=None), Outcome(f"{name} is split no more", True)
    split = Split(dict(sorted(shares.items())), key)
    if (pin := overrides.pin) is not None:
        raise FailedPrecondition(
            f"ordinary traffic of {name!r} is pinned to version {pin.version.version} by {pin.note.requested_by}: "
            f"run `tidegate unpin {name}` first"
        )
    live = model.wanted.numbers
    if strangers := sorted(split.shares.keys() - live):
        raise InvalidInput(
            f"the split of {name!r} names version {strangers[0]}, which nobody wants live "
            f"(live: {', '.join(map(str, sorted(live))) or 'none'}): push it first"
        )
    outcome = Outcome(f"ordinary traffic of {name} is {split}", True)
    if overrides.split is not None and overrides.split.split == split:
        return overrides, outcome
    return replace(overrides, split=SplitOverride(split, requester.note())), outcome


def _block(model: FleetModel, requester: Requester, version: int) -> _Decided:
    """Ends a pin or split that names the version."""
    found, overrides = _known(model, version), model.overrides
    outcome = Outcome(f"{model.name}:{version} must not serve", True, to_version=version)
    if overrides.block_of(found) is not None:
        return overrides, outcome
    instead = next((one for one in reversed(model.served) if one.fingerprint != found.fingerprint), None)
    pin, split = overrides.pin, overrides.split
    return replace(
        overrides,
        blocks=(*overrides.blocks, Block(version, found.fingerprint, requester.note(), instead)),
        pin=None if pin and pin.version.fingerprint == found.fingerprint else pin,
        split=None if split and version in split.split.shares else split,
    ), outcome


def _unblock(model: FleetModel, version: int) -> _Decided:
    left = tuple(one for one in model.overrides.blocks if one.version != version)
    outcome = Outcome(f"{model.name}:{version} may serve again", True, to_version=version)
    return replace(model.overrides, blocks=left), outcome


def _known(model: FleetModel, version: int) -> VersionReference:
    found = model.known(version)
    if found is None:
        raise NotFound(f"{model.name}:{version} was never pushed to this fleet: push it first")
    return found


def _check_thawed(model: FleetModel) -> None:
    if (freeze := model.overrides.freeze) is not None:
        why = f" ({freeze.note.reason})" if freeze.note.reason else ""
        raise FailedPrecondition(
            f"model {model.name!r} was frozen by {freeze.note.requested_by}{why}: nothing changes until "
            f"`tidegate unfreeze {model.name}`"
        )
