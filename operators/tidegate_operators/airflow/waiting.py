"""What triggers and sensors look at: the state of a version in an engine, the version that a registry's alias names.

Plain functions that block; an answer that is not there yet is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate_operators.steps.engine_group import engines_of
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import DeadlinePassed, NotFound, Unavailable
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient, VersionStatus
from tidegate_serving.sources.mlflow.registry import Proposal, Registry

GRACE_SECONDS = 60.0
"""How much longer Airflow waits for a trigger than the trigger does, which then tells that its time is over."""
_SECONDS = 20.0
_AWAY = (Unavailable, DeadlinePassed)


@dataclass(frozen=True, slots=True)
class Seen:
    """How a version stands: AVAILABLE, END for one that is gone or failed, None while there is something to wait for;
    and then what that is."""

    state: str | None
    why: str = ""


def version_state(engine: EngineConnection, servable: str, version: int | None) -> Seen:
    """Of one engine; an engine that does not answer is waited for. Without a version: AVAILABLE once ordinary clients
    are answered. Of a group: AVAILABLE where it is so in all its engines, END where in one of them."""
    try:
        found = [_state_in(one, servable, version) for one in engines_of(engine)]
    except _AWAY as error:
        return Seen(None, error.message)
    for state in ("END", None):
        for one in found:
            if one.state == state:
                return one
    return found[0]


def _state_in(engine: EngineConnection, servable: str, version: int | None) -> Seen:
    with ControlClient(engine) as client:
        status = client.servable(servable)
    if version is None:
        number = status.clients_get
        found = None if number is None else status.version(number)
        served = found is not None and found.state is State.AVAILABLE
        return (
            Seen("AVAILABLE")
            if served
            else Seen(None, f"the engine at {engine} gives ordinary clients none, promote one")
        )
    blocked = any(one.action == "block" and one.version == version for one in status.overrides)
    wanted = status.desired.version(version) is not None and not blocked
    state = _state(status.version(version), wanted)
    return Seen(state) if state else Seen(None, _unavailable(engine, status.version(version)))


def _state(found: VersionStatus | None, wanted: bool) -> str | None:
    if found is None:
        return None
    if found.state is State.AVAILABLE:
        return "AVAILABLE"
    return "END" if found.state is State.END and (found.error_code or not wanted) else None


def _unavailable(engine: EngineConnection, found: VersionStatus | None) -> str:
    has = "was not given it, push it there" if found is None else f"has it as {found.state.name}, wait longer"
    return f"the engine at {engine} {has}"


def registered_version(uri: str, name: str, alias: str) -> str | None:
    """The number of the version that the alias names; None where there is none. Errors as Registry's."""
    try:
        return str(Registry(uri, _SECONDS).proposed(name, Proposal(alias=alias)))
    except NotFound:
        return None


def deadline(seconds: float) -> str:
    """The moment so many seconds from now, as triggers carry it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
