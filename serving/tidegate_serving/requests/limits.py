"""What the endpoints bound and may be told anew while they run: message size, connections, the default deadline.

The engine's config gives the first ones; the front hands them to the data plane.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.bounds import LIMITS, check_bounds


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_message_bytes` per request, `max_connections` over all endpoints, `request_timeout_seconds` for requests
    that bring no deadline. InvalidInput for one out of bounds."""

    max_message_bytes: int
    max_connections: int
    request_timeout_seconds: float

    def __post_init__(self) -> None:
        check_bounds(self, LIMITS)

    @classmethod
    def of(cls, config: EngineConfig) -> Limits:
        """Those of a config."""
        return cls(config.max_message_bytes, config.max_connections, config.request_timeout_seconds)

    def for_plane(self) -> dict[str, int]:
        """As the data plane takes them."""
        return {
            "max_message_bytes": self.max_message_bytes,
            "max_connections": self.max_connections,
            "request_timeout_ms": int(self.request_timeout_seconds * 1000),
        }
