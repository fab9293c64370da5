"""Rows of a table as a version's inputs."""

from __future__ import annotations

import pyarrow as pa

from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.sandbox.examples import examples_of


def test_a_moment_in_nanoseconds_becomes_seconds() -> None:
    table = pa.table({"sent_at": pa.array([1_500_000_000_123_456_789], pa.timestamp("ns"))})
    signature = Signature((TensorSpec("sent_at", "float64"),), (TensorSpec("y", "float32"),))
    assert examples_of(signature, table).arrays["sent_at"].tolist() == [1_500_000_000.0]


def test_ids_of_64_bits_keep_all_their_digits() -> None:
    ids = [2**64 - 1, 2**53 + 1, None]
    signature = Signature((TensorSpec("id", "uint64"),), (TensorSpec("y", "float32"),))
    found = examples_of(signature, pa.table({"id": pa.array(ids, pa.uint64())}))
    assert found.arrays["id"].tolist() == [2**64 - 1, 2**53 + 1]
