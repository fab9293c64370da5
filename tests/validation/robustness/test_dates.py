"""Texts that are all dates: a version may refuse what is none, in so many words."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.robustness.examined import examined, failing
from tests.validation.world import Draft

from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.robustness.input_domain import input_domains

SOURCE = """
from datetime import date

import numpy as np


class Model:
    def predict(self, inputs):
        texts = [text.decode(errors="replace") for text in inputs["day"].tolist()]
        try:
            days = [date.fromisoformat(text).weekday() for text in texts]
        except ValueError as error:
            WHAT
        return {"y": np.array(days, np.float32) / 7}
"""
DATED = Signature((TensorSpec("day", "string"),), (TensorSpec("y", "float32"),))
DAYS = [f"2026-{month:02d}-{day:02d}" for month in range(1, 13) for day in range(1, 29)]


@pytest.mark.parametrize(
    ("what", "blamed"), [("raise ValueError('day is no YYYY-MM-DD') from error", 0), ("raise KeyError from error", 1)]
)
def test_a_first_version_may_refuse_what_is_no_date(tmp_path: Path, what: str, blamed: int) -> None:
    draft = Draft(source=SOURCE.replace("WHAT", what), signature=DATED, example={"day": DAYS[0]})
    found = examined(tmp_path, draft.source, table=pa.table({"day": DAYS}), draft=draft)
    assert len([one for one in failing(found) if one.check == "boundary"]) == blamed


@pytest.mark.parametrize(
    ("texts", "dated"),
    [
        (["2026-01-31", "2026-02-01T10:00:00Z", "", None], True),
        (["31.12.2026", "1.1.2027"], True),
        (["12/31/2026", "31/12/2026"], True),
        (["31.12.26", "01.02.27"], True),
        (["10:30", "23:59:59"], True),
        (["16:9", "21:9"], False),
        (["1.2.3", "1.10.2"], False),
        (["2026-01-31", "soon"], False),
        (["1001", "94043"], False),
        (["", None], None),
    ],
)
def test_texts_are_dates_where_all_of_them_are(texts: list[str | None], dated: bool | None) -> None:
    table = pa.table({"day": texts, world.LABEL: range(len(texts))})
    assert input_domains(DATED, None, table, None)["day"].dated is dated


def test_a_large_table_of_categories_is_not_read_for_dates() -> None:
    table = pa.table({"day": pa.array(["red", "green"] * 200_000)})
    began = time.process_time()
    assert input_domains(DATED, None, table, None)["day"].dated is False
    assert time.process_time() - began < 0.8
