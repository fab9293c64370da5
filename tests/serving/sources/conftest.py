"""What several tests of sources stand on: a gate with its key ring, and a bench of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.controls_bench import ControlsBench
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


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ControlsBench]:
    bench = ControlsBench(tmp_path)
    yield bench
    bench.stop()
