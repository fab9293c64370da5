"""What steering turns at the data plane: the kill switch, the split, and where ordinary clients are now.

Steering speaks of orders; the endpoint speaks of traffic; this stands between them.
"""

from __future__ import annotations

from tidegate_serving.control.overrides import SplitRule
from tidegate_serving.requests.plane import Endpoint
from tidegate_serving.requests.traffic import Split


class EndpointValves:
    """Steering's `Valves` on the endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def set_enabled(self, name: str, enabled: bool, reason: str) -> None:
        """The kill switch."""
        self._endpoint.set_enabled(name, enabled, reason)

    def set_split(self, name: str, split: SplitRule | None) -> None:
        """How ordinary traffic is divided, or not."""
        self._endpoint.set_split(name, None if split is None else Split(split.shares, split.key))

    def serving(self, name: str) -> int | None:
        """Label `stable`, else the newest wanted version that is there."""
        return self._endpoint.ordinary(name)
