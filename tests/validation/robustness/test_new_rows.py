"""What a version keeps of rows that nobody asked before, where rows are told apart by ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.robustness.examined import examined, failing, held_out
from tests.validation.world import HONEST, SIGNATURE, Draft

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.robustness.stages import new_rows


def numbered(tmp_path: Path, line: str) -> Finding:
    """What is found of new rows where the only input is an id of 64 bits, of a model with one more line."""
    signature = Signature((TensorSpec("id", "uint64"),), (TensorSpec("y", "float32"),))
    source = f"""
import time
import numpy as np

class Model:
    def predict(self, inputs):
        {line}
        return {{"y": (inputs["id"] % 7).astype(np.float32)}}
"""
    ids = np.random.default_rng(0).integers(0, 2**64 - 1, 300, np.uint64, endpoint=True)
    ids[0] = 2**64 - 1
    draft = Draft(source=source, signature=signature, example={"id": 3})
    found = examined(tmp_path, source, table=pa.table({"id": ids}), draft=draft)
    (told,) = (one for one in found if (one.check, one.subject) == ("memory", "new rows"))
    return told


def test_new_ids_of_64_bits_are_asked(tmp_path: Path) -> None:
    told = numbered(tmp_path, "pass")
    assert (told.outcome, told.sentence[:28]) == (Outcome.PASS, "memory does not grow over 80")


def test_where_new_ids_are_refused_it_says_that_nothing_was_looked_at(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, 2**64 - 1, 300, np.uint64, endpoint=True).tolist()
    line = f"if set(inputs['id'].tolist()) - {{2**64 - 1, 3, *{ids}}}: raise ValueError('an unknown id')"
    told = numbered(tmp_path, line)
    assert told.outcome is Outcome.PASS
    assert told.sentence.startswith(
        "with real rows whose whole numbers are others of the range that was seen it refuses"
    )
    assert told.sentence.endswith("what it keeps of rows was not looked at")


def test_what_a_slow_version_keeps_of_rows_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cache may have a bound that so few rows do not fill; what a fast one kept of as many rows is a failure."""
    monkeypatch.setattr(new_rows, "_MOST_SECONDS", 3.0)
    keep = "self.__dict__.setdefault('kept', {}).update((one, bytes(5000)) for one in inputs['id'].tolist())"
    told = numbered(tmp_path, f"time.sleep(0.02); {keep}")
    assert told.outcome is Outcome.WARN
    assert told.sentence.endswith("make sure that it has a bound: it is too slow for it to be full by now)")


def with_texts(tmp_path: Path, line: str, texts: list[str]) -> list[Finding]:
    """What is found of a model with one more line that has one more input, `note`."""
    source = HONEST.replace("        weight =", f"        {line}\n        weight =")
    draft = Draft(
        source=source,
        signature=Signature((*SIGNATURE.inputs, TensorSpec("note", "string")), SIGNATURE.outputs),
        example={"weight": 4.0, "size": 9.0, "depot": "north", "note": texts[0]},
    )
    return examined(tmp_path, source, table=world.with_column(held_out(), "note", texts), draft=draft)


def test_what_is_kept_of_texts_beside_numbers_is_found(tmp_path: Path) -> None:
    """As a cache by note, address or id does; depots come again, and stay as they are."""
    keep = "globals().setdefault('kept', {}).update((one, bytes(9000)) for one in inputs['note'])"
    found = with_texts(tmp_path, keep, [f"parcel {number}" for number in range(600)])
    assert [(one.check, one.subject) for one in failing(found)] == [("memory", "new rows")]


def test_what_is_kept_by_numbers_beside_stamps_is_found(tmp_path: Path) -> None:
    """Stamps with a number behind are refused, so that they stay as they are."""
    keep = "globals().setdefault('kept', {}).update((one, bytes(9000)) for one in inputs['weight'].tolist())"
    read = "[__import__('datetime').datetime.fromisoformat(one.decode()) for one in inputs['note']]"
    stamps = [f"2024-01-01 {number // 60:02}:{number % 60:02}" for number in range(600)]
    (told,) = (one for one in with_texts(tmp_path, f"{read}; {keep}", stamps) if one.subject == "new rows")
    assert (told.check, told.outcome) == ("memory", Outcome.FAIL)
    assert told.sentence.endswith("what it keeps of `note` was not looked at: it answers no other texts")
