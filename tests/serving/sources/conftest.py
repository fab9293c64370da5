"""What several tests of sources stand on: a gate with its key ring."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.rings import Ring, make_ring
from tests.support.trust_gate import TrustGate
from tests.support.versions import publish


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return make_ring(tmp_path / "keys")


@pytest.fixture
def gate(tmp_path: Path, ring: Ring) -> TrustGate:
    return TrustGate(tmp_path, ring)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return publish(tmp_path / "repository", "m", 1)
