"""The rare calls that clients make on the data port and that Python answers: reload of the config.

The data plane hands over the method's full path and protobuf bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate_serving.contract.errors import Unsupported

RELOAD_CONFIG = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"


class ControlCalls:
    """Answers by method path; `reload` answers the request for another list of models."""

    def __init__(self, reload: Callable[[bytes], bytes]) -> None:
        self._reload = reload

    def __call__(self, method: str, request: bytes) -> bytes:
        """Protobuf bytes in and out. Raises the contract's errors, Unsupported for a method it does not know."""
        if method == RELOAD_CONFIG:
            return self._reload(request)
        raise Unsupported(f"method {method} is not served here")
