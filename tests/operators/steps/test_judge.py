"""A model is judged where it lies: a file that nobody published, data from a frame, no key and no engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression

from tidegate_operators.steps import Evidence, judge
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_validation.policy import Policy

QUALITY = Policy(run=("quality",), required=("quality",))


def rows(seed: int, count: int = 3000) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame({"a": random.normal(size=count), "b": random.normal(size=count)})
    data["late"] = (data["a"] + random.normal(size=count) > 0).astype("int64")
    return data


def model(path: Path, columns: tuple[str, ...] = ("a", "b"), swapped: bool = False) -> Path:
    training = rows(1)
    truth = 1 - training["late"] if swapped else training["late"]
    skops.io.dump(LogisticRegression().fit(training[list(columns)], truth), path)
    return path


def test_a_files_verdict_against_another_file_names_the_worse_one(tmp_path: Path) -> None:
    good, bad = model(tmp_path / "good.skops"), model(tmp_path / "bad.skops", swapped=True)
    held_out = rows(2)
    worse = judge(bad, Evidence(held_out, "late", baseline=good, policy=QUALITY), report=tmp_path / "report")
    assert worse.verdict.outcome is Outcome.FAIL
    assert not worse.verdict.first
    assert worse.report == tmp_path / "report" / "index.html"
    assert worse.report.is_file()
    same = judge(good, Evidence(pl.from_pandas(held_out), "late", baseline=good, policy=QUALITY))
    assert same.verdict.outcome is Outcome.PASS
    assert same.report is None


def test_without_training_data_skew_is_not_made_up_from_the_held_out_rows(tmp_path: Path) -> None:
    policy = Policy(run=("skew",), required=("skew",))
    alone = judge(model(tmp_path / "m.skops"), Evidence(rows(2), "late", policy=policy))
    assert alone.verdict.outcome is Outcome.INCONCLUSIVE
    assert "no training profile" in alone.verdict.sentence


def test_what_is_no_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"gone\.onnx is missing"):
        judge(tmp_path / "gone.onnx", Evidence(rows(2), "late"))
    (tmp_path / "model.bin").write_bytes(b"?")
    with pytest.raises(InvalidInput, match="does not tell its platform"):
        judge(tmp_path / "model.bin", Evidence(rows(2), "late"))
    with pytest.raises(InvalidInput, match="fitted on b, which"):
        judge(model(tmp_path / "m.skops"), Evidence(rows(2).drop(columns="b"), "late"))
