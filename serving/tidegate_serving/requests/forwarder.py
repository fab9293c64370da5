"""Starts the native router of a fleet from an engine's config: what it says of the data ports holds for the router."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import tidegate_native as native

from tidegate_serving.config import EngineConfig
from tidegate_serving.requests.running_plane import PortSecurity, State, usable
from tidegate_serving.requests.settings import plane_settings

Numbers = tuple[int, int, int, int, float]
"""Requests, errors, retried, hedged, and when the model was used last, in Unix seconds."""
NodePem = tuple[bytes, tuple[bytes, bytes] | None, str | None]
"""Who signs nodes' certificates, the router's own certificate and key, and the name in those of nodes (PEM)."""


class Forwarder(Protocol):
    """What forwards requests, and is told where to."""

    def apply(self, nodes: Mapping[str, tuple[str, str]], models: Mapping[str, Sequence[str]]) -> None:
        """Swaps all routes at once."""

    def set_states(self, states: Mapping[str, Sequence[State]]) -> None:
        """How the versions of all models stand."""

    def set_refused(self, refused: Mapping[str, str]) -> None:
        """Models that are loaded for no request, with why."""

    def stats(self) -> dict[str, Numbers]:
        """By model."""

    def stop(self, drain_seconds: float) -> bool:
        """Whether all that was accepted was answered in time."""


def start_forwarder(
    config: EngineConfig, security: PortSecurity, node_tls: NodePem | None, wanted: Callable[[str], object]
) -> native.Router:
    """Listens, and is ready once it is told routes. `wanted` is called with the name of a model that is asked for and
    on no node. OSError, naming the address, when one cannot be bound, InvalidInput for certificates or patterns in
    `security` or `node_tls` that cannot be used."""
    fleet = config.fleet
    with usable():
        return native.Router.start(
            plane_settings(config, security.tls, security.access),
            wanted=wanted,
            cold_timeout_ms=int(fleet.cold_seconds * 1000),
            hedge_after_ms=int(fleet.hedge_seconds * 1000) or None,
            node_tls=node_tls,
        )
