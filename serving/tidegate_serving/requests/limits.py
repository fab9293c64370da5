"""Limits of the endpoints that a reload can change: message size, connections, the default deadline.

The engine's config gives the first ones; the front hands them to the data plane.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.engine_config import CONNECTIONS, MESSAGE_BYTES, SOME_SECONDS
from tidegate_serving.config.open_files import most_connections
from tidegate_serving.typed_config import bounded, check_bounds


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_message_bytes` per request, `max_connections` over all endpoints, `request_timeout_seconds` for requests
    without a deadline of their own. InvalidInput for one out of bounds."""

    max_message_bytes: int = field(metadata=bounded(MESSAGE_BYTES))
    max_connections: int = field(metadata=bounded(CONNECTIONS))
    request_timeout_seconds: float = field(metadata=bounded(SOME_SECONDS))

    def __post_init__(self) -> None:
        check_bounds(self)

    @classmethod
    def of(cls, config: EngineConfig) -> Limits:
        """Those of a config, as far as this process may have files open."""
        connections = most_connections(config.max_connections)
        return cls(config.max_message_bytes, connections, config.request_timeout_seconds)

    def for_plane(self) -> dict[str, int]:
        """As the data plane takes them."""
        return {
            "max_message_bytes": self.max_message_bytes,
            "max_connections": self.max_connections,
            "request_timeout_ms": int(self.request_timeout_seconds * 1000),
        }
