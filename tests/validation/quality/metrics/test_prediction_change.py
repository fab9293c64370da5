"""Churn, shift and collapse: how far predictions moved from the baseline's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.validation.quality.samples import ROWS, many, numbers, queries, two

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.metrics.prediction_change import churn, collapse, shift


def test_churn_and_shift_tell_how_answers_moved() -> None:
    evaluation, scores = two()
    assert churn(evaluation, scores, scores).value == 0
    assert shift(evaluation, scores, scores) == 0
    flipped = np.where(np.arange(ROWS) < 120, 1 - scores, scores)
    decided = np.mean((flipped > 0.5) != (scores > 0.5))
    assert churn(evaluation, flipped, scores).value == pytest.approx(decided)
    labels, numbers_scores = numbers()
    moved = numbers_scores + float(numbers_scores.std())
    assert churn(labels, moved, numbers_scores).value == pytest.approx(1.0)
    assert shift(labels, moved, numbers_scores) == pytest.approx(0.95, abs=0.15)
    ranked, ranks = queries()
    assert churn(ranked, -ranks, ranks).value == pytest.approx(1.0, abs=0.01)
    classes, chances = many()
    assert 0.3 < churn(classes, chances[:, [1, 0, 2, 3, 4]], chances).value <= 1


def test_a_frequent_class_may_be_a_frequent_answer() -> None:
    random = np.random.default_rng(5)
    labels = (random.random(ROWS) < 0.03).astype(np.float64)
    rare = Evaluation("binary", labels, np.arange(ROWS) % 40, ("no", "yes"))
    never, half = np.zeros(ROWS), (random.random(ROWS) < 0.5).astype(np.float64)
    found = collapse(rare, never, None)
    assert (found.share, found.answer) == (1.0, "the class `no`")
    assert found.before == pytest.approx(1 - labels.mean())
    even = replace(rare, labels=half)
    assert collapse(even, never, half).before == pytest.approx(1 - half.mean())
    soft = collapse(even, np.full(ROWS, 0.3), 0.2 + 0.6 * half)
    assert soft.share == 1.0
    assert soft.before == pytest.approx(0.5, abs=0.1)
    assert soft.spread == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-13, 1.0, 1e13])
def test_numbers_of_any_scale_are_one_answer_only_where_they_are(scale: float) -> None:
    labels, scores = numbers()
    labels = replace(labels, labels=labels.labels * scale)
    scores = scores * scale
    found = collapse(labels, scores, 1.01 * scores)
    assert found.share < 0.1
    assert found.spread == pytest.approx(1 / 1.01)
    assert churn(labels, scores + float(scores.std()), scores).value == pytest.approx(1.0)
    constant = np.full(ROWS, float(scores.mean()))
    assert collapse(labels, constant, scores).share == 1.0
    assert collapse(labels, constant, scores).spread == pytest.approx(0, abs=1e-9)
    rare, chances = two()
    assert collapse(rare, 1e-9 * chances, None).share < 0.1
