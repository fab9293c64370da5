"""A canary's numbers, read from log files as an engine writes them, for outputs of every shape."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.log_blocks import ARRIVED, FakeBlock

from tidegate_operators.steps.canary_log import read_numbers
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.inference_log.writer import LogWriter

SINCE = ARRIVED - timedelta(minutes=1)


def numbers(root: Path, answers: Any) -> Any:
    x = np.zeros(len(answers))
    writer = LogWriter(root)
    writer.write(FakeBlock({"x": x}, {"y": answers if answers.dtype == object else np.zeros_like(answers)}))
    writer.write(FakeBlock({"x": x}, {"y": answers}, version=2, role=[1] * len(answers)))
    return read_numbers(root, ServableId("m", 2), 1, SINCE)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 4), (3, 1, 2, 2)])
def test_rows_that_are_not_finite_are_counted_whatever_the_outputs_shape(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    answers = np.ones(shape, "f4")
    answers[1, ...] = np.nan
    answers.reshape(3, -1)[2, -1] = np.inf
    found = numbers(tmp_path, answers)
    assert (found.teed, found.compared, found.not_finite) == (3, 3, 2)
    assert found.max_difference == np.inf


@pytest.mark.parametrize("answers", [np.full((3, 2), 0.5, "f4"), np.full((3, 2), 4), np.array([[b"a"]] * 3, object)])
def test_sound_answers_of_several_elements_are_without_fault(tmp_path: Path, answers: Any) -> None:
    found = numbers(tmp_path, answers)
    assert (found.compared, found.not_finite) == (3, 0)
    assert found.max_difference == (0.5 if answers.dtype.kind == "f" else 0.0)
