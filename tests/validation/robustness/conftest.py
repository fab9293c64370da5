"""What all tests of the robustness gate share: short looks at what a version does while nobody asks it, and while
several threads do."""

from __future__ import annotations

import pytest

from tidegate_validation.robustness.stages import idle
from tidegate_validation.sandbox import model_process

_SECONDS = 0.3
_AT_ONCE_SECONDS = 0.05
_OF_THREADS = ("at_once", "mixes_up_calls", "thread")


@pytest.fixture(autouse=True)
def _idleness_is_looked_at_shortly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each examination looks at it for a second, or three; few tests are about it, and their names say so."""
    if "idle" not in request.node.name:
        monkeypatch.setattr(idle, "_SECONDS", _SECONDS)


@pytest.fixture(autouse=True)
def _few_calls_are_made_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each examination makes them for a second, and two rounds at least; tests about them say so in their names."""
    if not any(word in request.node.name for word in _OF_THREADS):
        monkeypatch.setattr(model_process, "_CONCURRENT_SECONDS", _AT_ONCE_SECONDS)
