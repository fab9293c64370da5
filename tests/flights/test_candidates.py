"""Trained candidates: they answer any row, their files answer alike, and each mistake is what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.flights import some_june, some_training

from tidegate_flights import expected
from tidegate_flights.candidates import ONNX_FILE, train_boosting, train_logistic
from tidegate_flights.data import write_rows
from tidegate_flights.features import CATEGORIES, FEATURES, LABEL, NUMBERS, PROBABILITY
from tidegate_flights.mistakes import KILOMETRES_PER_MILE, Mistake, train_mistaken
from tidegate_flights.models import fit, gradient_boosting, logistic_regression, probabilities
from tidegate_flights.prepare import example_row, publish_candidate
from tidegate_serving.contract.manifest import read_manifest, verify_files
from tidegate_serving.contract.repository import profile_directory


def strange(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows with nothing known: categories nobody has seen and every number missing."""
    return frame.assign(**dict.fromkeys(CATEGORIES, "??"), **dict.fromkeys(NUMBERS, np.float32(np.nan)))


def test_the_files_answer_what_the_trained_model_answers(tmp_path: Path) -> None:
    training, june = some_training(), some_june()
    model = fit(gradient_boosting(), training, training[LABEL])
    candidate = train_boosting(training, tmp_path / "onnx")
    found = expected.answers(candidate.files, june)
    assert np.abs(found - probabilities(model, june)).max() < 1e-6
    assert found.std() > 0.01


def test_the_skops_file_answers_what_the_trained_model_answers(tmp_path: Path) -> None:
    training, june = some_training(), some_june()
    model = fit(logistic_regression(), training[list(FEATURES)], training[LABEL])
    found = expected.answers(train_logistic(training, tmp_path / "skops").files, june)
    assert np.abs(found - probabilities(model, june[list(FEATURES)])).max() < 1e-9


@pytest.mark.parametrize("train", [train_logistic, train_boosting])
def test_rows_of_which_nothing_is_known_still_get_a_probability(train: object, tmp_path: Path) -> None:
    assert callable(train)
    candidate = train(some_training(), tmp_path / "files")
    found = expected.answers(candidate.files, strange(some_june(20)))
    assert ((found > 0) & (found < 1)).all()


def test_the_retrain_differs_from_version_2_but_hardly(tmp_path: Path) -> None:
    june = some_june()
    again = expected.answers(train_mistaken(Mistake.NONE, some_training(), tmp_path / "again").files, june)
    before = expected.answers(train_boosting(some_training(), tmp_path / "before").files, june)
    assert 0 < np.abs(again - before).mean() < 0.05


def test_the_unit_mistake_is_in_the_training_rows_only(tmp_path: Path) -> None:
    training = some_training()
    candidate = train_mistaken(Mistake.UNIT, training, tmp_path / "files")
    ratio = candidate.training["distance"] / training["distance"]
    assert np.allclose(ratio, KILOMETRES_PER_MILE, rtol=1e-6)
    assert candidate.training.drop(columns="distance").equals(training.drop(columns="distance"))


def test_the_leaking_candidate_asks_for_the_departure_delay(tmp_path: Path) -> None:
    candidate = train_mistaken(Mistake.LEAK, some_training(), tmp_path / "files")
    assert "dep_delay" in candidate.signature.input_names


def ask_crasher(files: Path, carrier: str) -> int:
    """Exit status of a process that asks the packed model about one flight of a carrier."""
    script = f"""
import sys, numpy as np
sys.path.insert(0, {str(files)!r})
import model
row = dict.fromkeys({NUMBERS!r}, np.float32([np.nan])) | dict.fromkeys({CATEGORIES!r}, np.array([b"EWR"], dtype=object))
row["carrier"] = np.array([{carrier.encode()!r}], dtype=object)
answer = model.Model(__import__("pathlib").Path({str(files)!r})).predict(row)[{PROBABILITY!r}]
assert 0 < answer[0] < 1, answer
"""
    return subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode


def test_the_packed_table_serves_known_carriers_and_kills_the_process_on_others(tmp_path: Path) -> None:
    training = some_training()
    candidate = train_mistaken(Mistake.CRASH, training, tmp_path / "files")
    assert ask_crasher(candidate.files, training["carrier"].iloc[0]) == 0
    assert ask_crasher(candidate.files, "XX") < 0, "a signal ends the process"


def test_a_published_candidate_has_everything_that_gates_and_engine_need(tmp_path: Path) -> None:
    candidate = train_boosting(some_training(), tmp_path / "files")
    published = publish_candidate(candidate, 2, tmp_path / "repository")
    manifest, digest = read_manifest(published.directory)
    verify_files(manifest, published.directory)
    assert digest == published.manifest_digest
    assert (manifest.platform, manifest.label, manifest.event_time) == ("onnx", LABEL, "time_hour")
    assert "moved by at most" in manifest.metadata["conversion"]
    assert (published.directory / ONNX_FILE).is_file()
    assert (profile_directory(published.directory) / "profile.json").is_file()


def test_the_example_row_has_no_missing_value(tmp_path: Path) -> None:
    candidate = train_boosting(some_training(), tmp_path / "files")
    row = example_row(candidate)
    assert set(row) == set(candidate.signature.input_names)
    assert not any(isinstance(value, float) and np.isnan(value) for value in row.values())


def test_expected_answers_come_from_a_process_without_tidegate(tmp_path: Path) -> None:
    june = some_june()
    candidate = train_logistic(some_training(), tmp_path / "files")
    rows = write_rows(june, tmp_path / "rows.parquet")
    out = tmp_path / "answers.npz"
    script = (
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__'); "
        "print([name for name in sys.modules if name.startswith('tidegate')])"
    )
    job = ["--job", str(rows), str(out), f"1={candidate.files}"]
    command = [sys.executable, "-c", script, expected.__file__, *job]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
    with np.load(out) as found:
        assert np.abs(found["1"] - expected.answers(candidate.files, june)).max() < 1e-12
