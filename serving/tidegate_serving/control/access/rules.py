"""The one table of what each call of the control port needs, whose model it is about, and what of its answer is shown.

A method that is not in it is refused; a test compares it with what the port serves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_serving.control.access.grants import Grant, Role
from tidegate_serving.control.messages import SERVICE
from tidegate_serving.journal.entry import Kind

HEALTH = "grpc.health.v1.Health"
REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
_MODEL_LABEL = re.compile(r'[{,]model="((?:[^"\\]|\\.)*)"')
Shown = Callable[[Any, Grant], Any]


@dataclass(frozen=True, slots=True)
class Call:
    """What one request wants: a word for it, the model that it is about (empty for none in particular), the role."""

    action: str
    role: Role | None
    servable: str = ""
    all_models: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """`call` says what a request wants; `asker` the part of it that has `requested_by`, None where none has; `shown`
    takes out of an answer what a caller may not see, None where nothing is left."""

    call: Callable[[Any], Call]
    asker: Callable[[Any], Any] | None = None
    shown: Shown = lambda answer, grant: answer


def rule_of(method: str) -> Rule:
    """The rule of a full method name; one that lets nobody but operators of all models in where there is none."""
    return RULES.get(method, _UNKNOWN)


def _plain(action: str, role: Role | None, *, all_models: bool = False) -> Callable[[Any], Call]:
    return lambda request: Call(action, role, all_models=all_models)


def _about(action: str, role: Role) -> Callable[[Any], Call]:
    return lambda request: Call(action, role, request.servable)


def _itself(request: Any) -> Any:
    return request


def _operation(request: Any) -> Call:
    action = request.WhichOneof("action") or "operation"
    role = _OPERATIONS.get(action, Role.OPERATE)
    if action == "split" and len(request.split.shares) <= _SIDES:
        role = Role.RELEASE
    return Call(action, role, request.servable)


def _log(request: Any) -> Call:
    """It holds what clients sent, so looking is not enough; a request without a name is about all models."""
    return Call("log", Role.RELEASE, request.servable, all_models=not request.servable)


def _status(answer: Any, grant: Grant) -> Any:
    if grant.sees_all:
        return answer
    kept = [one for one in answer.servables if grant.sees(one.servable)]
    del answer.servables[:]
    answer.servables.extend(kept)
    for name in [name for name in answer.counters if not grant.sees_each(_MODEL_LABEL.findall(name))]:
        del answer.counters[name]
    return answer


def _entry(answer: Any, grant: Grant) -> Any:
    """What concerns no model in particular may name any of them, but for the engine's own start and stop."""
    if grant.sees_all or answer.kind == Kind.ENGINE.value:
        return answer
    return answer if answer.servable and grant.sees(answer.servable) else None


def _change(answer: Any, grant: Grant) -> Any:
    return answer if grant.sees(answer.servable) else None


def _push(request: Any) -> Call:
    """Who says that another engine has admitted a version lets it in after its verdict's date."""
    if request.admitted:
        return Call("push of what others admitted", Role.OPERATE, request.desired.servable)
    return Call("push", Role.RELEASE, request.desired.servable)


_SIDES = 2
"""A canary divides traffic between two versions, or ends that. Who may promote and roll back could send all of it to
either, so this gives nothing away; a split between more is an operator's own."""
_OPERATIONS: Mapping[str, Role] = {"rollback": Role.RELEASE}
_UNKNOWN = Rule(_plain("call", Role.OPERATE, all_models=True))

_CONTROL: Mapping[str, Rule] = {
    "GetStatus": Rule(_about("status", Role.LOOK), shown=_status),
    "WatchStates": Rule(_about("watch", Role.LOOK), shown=_change),
    "ReadJournal": Rule(_about("journal", Role.LOOK), shown=_entry),
    "ReadLog": Rule(_log),
    "GetConfig": Rule(_plain("config", Role.LOOK, all_models=True)),
    "GetSupport": Rule(_plain("support", Role.LOOK, all_models=True)),
    "SetDesiredState": Rule(_push, asker=lambda request: request.desired),
    "Operate": Rule(_operation, asker=_itself),
    "SetLogLevel": Rule(_plain("log-level", Role.OPERATE, all_models=True), asker=_itself),
    "Reload": Rule(_plain("reload", Role.OPERATE, all_models=True), asker=_itself),
}
_OTHERS: Mapping[str, Rule] = {
    f"{HEALTH}/Check": Rule(_plain("health", None)),
    f"{HEALTH}/List": Rule(_plain("health", None)),
    f"{HEALTH}/Watch": Rule(_plain("health", None)),
    **{f"{service}/ServerReflectionInfo": Rule(_plain("reflection", Role.LOOK)) for service in REFLECTION},
}
RULES: Mapping[str, Rule] = {
    **{f"/{SERVICE}/{method}": rule for method, rule in _CONTROL.items()},
    **{f"/{method}": rule for method, rule in _OTHERS.items()},
}
