"""A canary's numbers, read from log files as an engine writes them, for outputs of every shape."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.log_blocks import ARRIVED, FakeBlock, microseconds, write_log

from tidegate_operators.steps.canary_log import read_numbers
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule

SINCE = ARRIVED - timedelta(minutes=1)


RULE = CanaryRule()


def numbers(root: Path, answers: Any, rule: CanaryRule = RULE, primary: Any = None, **shadow: Any) -> CanaryNumbers:
    """What is read when `answers` are version 2's, one request a row, beside `primary`, zeros where it is not given."""
    x = np.zeros(len(answers))
    zeros = answers if answers.dtype == object else np.zeros_like(answers)
    before = {key.removeprefix("primary_"): shadow.pop(key) for key in list(shadow) if key.startswith("primary_")}
    write_log(root, FakeBlock({"x": x}, {"y": zeros if primary is None else primary}, **before))
    write_log(root, FakeBlock({"x": x}, {"y": answers}, version=2, role=[1] * len(answers), **shadow))
    return read_numbers(root, ServableId("m", 2), 1, SINCE, rule)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 4), (3, 1, 2, 2)])
def test_requests_that_are_not_finite_are_counted_whatever_the_outputs_shape(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    answers = np.ones(shape, "f4")
    answers[1, ...] = np.nan
    answers.reshape(3, -1)[2, -1] = np.inf
    found = numbers(tmp_path, answers)
    assert (found.shadowed, found.compared, found.not_finite) == (3, 3, 2)
    assert found.max_difference == 1.0


@pytest.mark.parametrize("answers", [np.full((3, 2), 0.5, "f4"), np.full((3, 2), 4), np.array([[b"a"]] * 3, object)])
def test_sound_answers_of_several_elements_are_without_fault(tmp_path: Path, answers: Any) -> None:
    found = numbers(tmp_path, answers)
    assert (found.compared, found.not_finite) == (3, 0)
    assert found.max_difference == (0.5 if answers.dtype.kind == "f" else 0.0)


def test_a_nan_that_the_serving_version_answers_too_is_no_fault_of_the_canary(tmp_path: Path) -> None:
    both = np.array([np.nan, 1.0, np.nan], "f4")
    found = numbers(tmp_path, np.array([np.nan, 1.0, 2.0], "f4"), primary=both)
    assert (found.not_finite, found.primary_faults) == (0, 1)


def test_a_nan_is_found_where_another_signature_calls_a_text_by_the_same_name(tmp_path: Path) -> None:
    texts = np.array([b"a", b"b"], object)
    for version, role in ((1, 0), (2, 1)):
        words = FakeBlock({"x": np.zeros(2)}, {"y": texts}, version=version, signature="words", role=[role] * 2)
        words.request_id = ["w0", "w1"]
        write_log(tmp_path, words)
    found = numbers(tmp_path, np.array([np.nan, 0.5, 0.0], "f4"))
    assert (found.shadowed, found.compared, found.not_finite, found.max_difference) == (5, 5, 1, 0.5)


def test_errors_count_by_who_made_them(tmp_path: Path) -> None:
    found = numbers(tmp_path, np.zeros(4, "f4"), status=[13, 13, 0, 0], primary_status=[0, 13, 13, 0])
    assert (found.errors, found.primary_faults, found.compared) == (1, 1, 4)


def test_real_outputs_disagree_beyond_the_tolerance_only(tmp_path: Path) -> None:
    answers = np.array([0.0, 0.2, 0.4], "f4")
    assert numbers(tmp_path, answers, CanaryRule(max_difference=0.3)).disagreements == 1
    assert numbers(tmp_path / "again", answers).disagreements == 0


def test_labels_disagree_when_they_are_unequal(tmp_path: Path) -> None:
    before = np.array([b"a", b"b", b"c"], object)
    assert numbers(tmp_path, np.array([b"a", b"x", b"c"], object), primary=before).disagreements == 1


def test_another_number_of_elements_is_an_infinite_difference(tmp_path: Path) -> None:
    found = numbers(tmp_path, np.zeros((2, 3), "f4"), CanaryRule(max_difference=9.0), primary=np.zeros((2, 2), "f4"))
    assert found.max_difference == np.inf
    assert found.disagreements == 2


def test_slow_requests_are_those_beyond_the_rules_factor_and_grace(tmp_path: Path) -> None:
    rule = CanaryRule(latency_factor=2.0, latency_grace_us=10.0)
    found = numbers(tmp_path, np.zeros(3, "f4"), rule, latency_us=[209, 210, 211])
    assert found.slow == 1
    assert (found.primary_latency_us, found.shadow_latency_us) == (100.0, 210.0)


def test_rows_of_one_request_are_one_pair(tmp_path: Path) -> None:
    answers = np.array([np.nan, np.nan, 1.0], "f4")
    ids = ["one", "one", "two"]
    rows = np.array([0, 1, 0], "u4")
    for version, role, values in ((1, 0, np.zeros(3, "f4")), (2, 1, answers)):
        write_log(
            tmp_path,
            RowsBlock({"x": np.zeros(3)}, {"y": values}, version=version, role=[role] * 3, request_id=ids, rows_=rows),
        )
    found = read_numbers(tmp_path, ServableId("m", 2), 1, SINCE, RULE)
    assert (found.shadowed, found.compared, found.not_finite) == (2, 2, 1)


def test_requests_under_one_id_are_as_many_pairs(tmp_path: Path) -> None:
    answers = np.arange(400.0)
    came = microseconds(ARRIVED) + np.arange(400) * 10_000
    again: dict[str, Any] = {"request_id": ["same"] * 400, "arrived_us": came}
    before = {f"primary_{key}": value for key, value in again.items()}
    found = numbers(tmp_path, answers, CanaryRule(max_difference=0.1), answers, **again, **before)
    assert (found.shadowed, found.compared, found.disagreements, found.max_difference) == (400, 400, 0, 0.0)


def test_outputs_of_unlike_types_disagree_where_their_texts_do(tmp_path: Path) -> None:
    found = numbers(tmp_path, np.array([b"1", b"cat", b"1"], object), primary=np.array([1, 1, 1]))
    assert (found.compared, found.disagreements) == (3, 1)
    found = numbers(tmp_path / "lists", np.array([[1], [1]]), primary=np.array([1, 1]))
    assert (found.compared, found.disagreements) == (2, 2)


def test_nothing_logged_yet_is_zero_and_copies_without_their_primary_are_not_compared(tmp_path: Path) -> None:
    assert read_numbers(tmp_path, ServableId("m", 2), 1, SINCE, RULE) == CanaryNumbers()
    x = np.zeros(2)
    write_log(tmp_path, FakeBlock({"x": x}, {"y": x}, request_id=["r0", "elsewhere"]))
    write_log(tmp_path, FakeBlock({"x": x}, {"y": x}, version=2, role=[1, 1]))
    found = read_numbers(tmp_path, ServableId("m", 2), 1, SINCE, RULE)
    assert (found.shadowed, found.compared) == (2, 1)


@dataclass
class RowsBlock(FakeBlock):
    """A block whose requests have several rows."""

    rows_: Any = None

    @property
    def row(self) -> Any:
        return self.rows_
