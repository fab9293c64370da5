"""Decisions that an engine carries out, asked of it so that asking again does nothing more."""

from __future__ import annotations

from collections.abc import Callable

from tidegate_operators.steps import rollback
from tidegate_operators.steps.engine_group import engines_of, on_each
from tidegate_pipelines.hub.audit.keeper import ASKED_BY_HUB
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.decisions.asked import Asked
from tidegate_serving.connection import EngineConnection
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
        reason=f"{asked.reason} [{asked.key}]",
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
}
"""How each of them is told; the sentence that the engine answers."""
