"""Decisions that an engine, or its log, has to do with; asking again does nothing more."""

from __future__ import annotations

from collections.abc import Callable

from tidegate_operators.steps import accept_reference, pushed_directory, require_log, rollback, serving_directory
from tidegate_operators.steps.engine_group import engines_of, on_each
from tidegate_pipelines.hub.audit.engines import told_reason
from tidegate_pipelines.hub.audit.keeper import ASKED_BY_HUB
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.decisions.asked import Asked
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.control_client import ControlClient, Outcome

HUB = ASKED_BY_HUB
"""What the journal of an engine has before the name of whoever decided here."""


def _roll_back(config: HubConfig, who: str, asked: Asked) -> str:
    done = rollback(
        control=engine_of(config, asked.model),
        servable=asked.model,
        version=asked.version,
        once=True,
        reason=told_reason(asked.reason, asked.key),
        requested_by=HUB + who,
    )
    return done.sentence or f"{done.id} serves again"


def _block(config: HubConfig, who: str, asked: Asked) -> str:
    version = _version(asked)
    said = {"requested_by": HUB + who, "reason": asked.reason}
    return _told(config, asked, lambda client: client.block(asked.model, version, **said))


def _unblock(config: HubConfig, who: str, asked: Asked) -> str:
    version = _version(asked)
    said = {"requested_by": HUB + who, "reason": asked.reason}
    return _told(config, asked, lambda client: client.unblock(asked.model, version, **said))


def _accept(config: HubConfig, who: str, asked: Asked) -> str:
    if asked.since is None or asked.until is None:
        raise InvalidInput(f"{asked.kind} lacks since or until: add it")
    control = engine_of(config, asked.model)
    if asked.version is None:
        directory = serving_directory(control=control, servable=asked.model)
    else:
        directory = pushed_directory(control=control, servable=asked.model, version=asked.version)
    log = require_log(control=control)
    found = accept_reference(directory=directory, log_root=log, since=asked.since, until=asked.until)
    window = f"{times.to_text(found.since)} to {times.to_text(found.until)}"
    return f"{who} made {window} the reference of {found.id}: its requests are compared with these {found.rows:,} rows"


def _told(config: HubConfig, asked: Asked, tell: Callable[[ControlClient], Outcome]) -> str:
    def one(engine: EngineConnection) -> str:
        with ControlClient(engine) as client:
            return tell(client).sentence

    return on_each(engines_of(engine_of(config, asked.model)), one).all()[0]


def engine_of(config: HubConfig, model: str) -> EngineConnection:
    """The engine, or group, that serves a model."""
    connections = config.connections()
    name = config.release_of(model).engine
    return connections[name] if name else next(iter(connections.values()))


def _version(asked: Asked) -> int:
    if asked.version is None:
        raise InvalidInput(f"{asked.kind} lacks version: add it")
    return asked.version


ENGINE_ACTIONS: dict[str, Callable[[HubConfig, str, Asked], str]] = {
    "rollback": _roll_back,
    "block": _block,
    "unblock": _unblock,
    "accept-reference": _accept,
}
"""How each of them is told; the sentence that the engine answers."""
