"""Rows of a table as a version's inputs."""

from __future__ import annotations

import pyarrow as pa

from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.sandbox.examples import examples_of


def test_a_moment_in_nanoseconds_becomes_seconds() -> None:
    table = pa.table({"sent_at": pa.array([1_500_000_000_123_456_789], pa.timestamp("ns"))})
    signature = Signature((TensorSpec("sent_at", "float64"),), (TensorSpec("y", "float32"),))
    assert examples_of(signature, table).arrays["sent_at"].tolist() == [1_500_000_000.0]
