"""Of which servables the version that served before stays loaded, so that a rollback takes effect at once.

Steering asks; the config says, and for what was pushed, the push may.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate_serving.config import EngineConfig


class KeepPrevious:
    """`now` is the config that counts; `pushed` says whether a servable's push asked for it."""

    def __init__(self, config: EngineConfig, pushed: Callable[[str], bool]) -> None:
        self.now = config
        self._pushed = pushed

    def __call__(self, name: str) -> bool:
        """Whether it stays."""
        model = self.now.models.get(name)
        configured = None if model is None else model.keep_previous
        return self._pushed(name) or (self.now.keep_previous if configured is None else configured)
