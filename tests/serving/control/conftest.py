"""What the tests of operators' decisions stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.lifecycle.operations_bench import OperationsBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[OperationsBench]:
    bench = OperationsBench(tmp_path)
    yield bench
    bench.stop()
