"""What tests of admission stand on: a version, a key ring, and an engine's gate that trusts it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.models.versions import publish
from tests.support.release.rings import Ring, make_ring
from tests.support.release.trust_gate import TrustGate


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return make_ring(tmp_path / "keys")


@pytest.fixture
def gate(tmp_path: Path, ring: Ring) -> TrustGate:
    return TrustGate(tmp_path, ring)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return publish(tmp_path / "repository", "m", 1)
