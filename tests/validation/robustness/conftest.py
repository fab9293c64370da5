"""What all tests of the robustness gate share: a short look at what a version does while nobody asks it."""

from __future__ import annotations

import pytest

from tidegate_validation.robustness.stages import idle

_SECONDS = 0.3


@pytest.fixture(autouse=True)
def _idleness_is_looked_at_shortly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each examination looks at it for a second, or three; few tests are about it, and their names say so."""
    if "idle" not in request.node.name:
        monkeypatch.setattr(idle, "_SECONDS", _SECONDS)
