"""What triggers and sensors look at: the state of a version in an engine, the version that a registry's alias names.

Plain functions that block; an answer that is not there yet is None.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta

from tidegate_operators.steps.engine_group import engines_of
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import DeadlinePassed, Unavailable
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient, VersionStatus

_SECONDS = 20.0
_AWAY = (Unavailable, DeadlinePassed)


def version_state(engine: EngineConnection, servable: str, version: int | None) -> str | None:
    """AVAILABLE, END for a version that is gone or failed; None while there is something to wait for, also for an
    engine that does not answer. Without a version: AVAILABLE once ordinary clients are answered. Of a group: AVAILABLE
    where it is so in all its engines, END where in one of them."""
    try:
        found = {_state_in(one, servable, version) for one in engines_of(engine)}
    except _AWAY:
        return None
    return "END" if "END" in found else found.pop() if len(found) == 1 else None


def _state_in(engine: EngineConnection, servable: str, version: int | None) -> str | None:
    with ControlClient(engine) as client:
        status = client.servable(servable)
    if version is None:
        number = status.clients_get
        found = None if number is None else status.version(number)
        return "AVAILABLE" if found is not None and found.state is State.AVAILABLE else None
    blocked = any(one.action == "block" and one.version == version for one in status.overrides)
    return _state(status.version(version), wanted=status.desired.version(version) is not None and not blocked)


def _state(found: VersionStatus | None, wanted: bool) -> str | None:
    if found is None:
        return None
    if found.state is State.AVAILABLE:
        return "AVAILABLE"
    return "END" if found.state is State.END and (found.error_code or not wanted) else None


def registered_version(uri: str, name: str, alias: str) -> str | None:
    """The number of the version that the alias names; None where there is none. Unavailable for a registry that does
    not answer. MLflow's REST interface is asked, so that nobody who waits needs MLflow."""
    query = urllib.parse.urlencode({"name": name, "alias": alias})
    address = f"{uri.rstrip('/')}/api/2.0/mlflow/registered-models/alias?{query}"
    if not address.startswith(("http://", "https://")):
        raise Unavailable(f"MLflow's address is {uri!r}: name its tracking server, such as http://mlflow:5000")
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
            document = json.load(answer)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (400, 404):
            return None
        raise Unavailable(f"MLflow at {uri} answers {error.code}: see its log") from error
    except (OSError, ValueError) as error:
        raise Unavailable(f"MLflow at {uri} does not answer ({error}): is it running?") from error
    return str(document["model_version"]["version"])


def deadline(seconds: float) -> str:
    """The moment so many seconds from now, as triggers carry it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
