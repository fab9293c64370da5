"""Evidence that cannot judge a version is the user's mistake: nothing is signed, and an earlier verdict stays."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.models.versions import make_validator, publish

from tidegate_operators.steps import Evidence, validate
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.repository import verdict_path


def test_a_version_without_a_label_needs_one_as_evidence(tmp_path: Path) -> None:
    directory = publish(tmp_path / "models", "m", 1)
    private_key = make_validator(tmp_path / "keys").private
    with pytest.raises(InvalidInput) as refused:
        validate(directory, Evidence({"x": [1.0], "late": [1]}), private_key=private_key)
    assert refused.value.message == "m:1 names no label column, so nothing can be judged: give the label column"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": [1.0]}, r"lacks late \(it has x\)"),
        ({"late": [1]}, r"lacks x \(it has late\)"),
        ({"x": pa.array([], pa.float32()), "late": pa.array([], pa.int64())}, "has no rows"),
    ],
)
def test_nothing_is_signed_for_a_wrong_file(tmp_path: Path, columns: dict[str, object], words: str) -> None:
    validator = make_validator(tmp_path / "keys")
    directory = publish(tmp_path / "models", "m", 1)
    before = validator.sign(directory).read_bytes()
    held_out = tmp_path / "held_out.parquet"
    pq.write_table(pa.table(columns), held_out)
    with pytest.raises(InvalidInput, match=words):
        validate(directory, Evidence(held_out, "late"), private_key=validator.private)
    assert verdict_path(directory).read_bytes() == before
