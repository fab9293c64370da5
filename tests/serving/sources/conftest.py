"""What several tests of sources stand on: a bench of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.controls_bench import ControlsBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ControlsBench]:
    bench = ControlsBench(tmp_path)
    yield bench
    bench.stop()
