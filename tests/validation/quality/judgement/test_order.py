"""Answers that are read for the wrong classes are told as that, and what is merely bad is not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.validation.quality import samples

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import HeldOut, ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.judgement.order import judge_order
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Floats


def judged(evaluation: Evaluation, scores: Floats) -> list[Finding]:
    return judge_order(ScoredExamples(HeldOut(None, evaluation, "40 days"), scores, None), QualityRule())


def test_scores_of_the_other_class_are_told_with_the_class_to_name() -> None:
    evaluation, scores = samples.two()
    assert judged(evaluation, scores) == []
    (found,) = judged(evaluation, 1 - scores)
    assert found.outcome is Outcome.WARN
    assert found.cause == {"kind": "class order", "positive": "0"}
    assert "quality.positive" in found.sentence


def test_columns_in_another_order_are_told_class_by_class() -> None:
    evaluation, scores = samples.many()
    sharp = scores.copy()
    sharp[np.arange(len(sharp)), evaluation.labels.astype(int)] += 0.5
    assert judged(evaluation, sharp) == []
    (found,) = judged(evaluation, sharp[:, [1, 0, 2, 3, 4]])
    assert found.cause == {"kind": "class order", "classes": {"a": "b", "b": "a"}}
    assert "in the order of its columns" in found.sentence
    (found,) = judged(evaluation, sharp[:, [3, 0, 1, 2, 4]])
    assert found.cause == {"kind": "class order", "classes": {"a": "d", "b": "a", "c": "b", "d": "c"}}


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_classes_that_are_only_guessed_are_not_told_as_moved(seed: int) -> None:
    evaluation, scores = samples.many()
    sharp, random = scores.copy(), np.random.default_rng(seed)
    sharp[np.arange(len(sharp)), evaluation.labels.astype(int)] += 0.5
    guessed = evaluation.labels > 1
    sharp[guessed, 2:] = random.random((guessed.sum(), 3)) * 0.9
    (found,) = judged(evaluation, sharp[:, [1, 0, 2, 3, 4]])
    assert found.cause == {"kind": "class order", "classes": {"a": "b", "b": "a"}}


def test_many_classes_that_are_moved_are_named_though_none_is_sure_by_itself() -> None:
    """Ten classes of 40 rows, of which 14 are answered right and 26 as the class that it is swapped with."""
    labels = np.repeat(np.arange(10), 40)
    answered = np.where(np.arange(400) % 40 < 26, labels ^ 1, labels)
    evaluation = Evaluation("multiclass", labels.astype(np.float64), np.arange(400), tuple("abcdefghij"))
    (found,) = judged(evaluation, np.eye(10)[answered])
    assert found.cause is not None
    assert found.cause["classes"] == dict(zip("abcdefghij", "badcfehgji", strict=True))
    assert found.sentence.endswith("Mend how it numbers or names its classes")


@pytest.mark.parametrize("seed", range(10))
def test_guesses_and_one_answer_for_everything_are_in_no_other_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    for evaluation, scores in (samples.two(seed), samples.many(seed)):
        assert judged(evaluation, random.permutation(scores)) == []
        assert judged(evaluation, np.tile(scores[:1], (len(scores), 1)) if scores.ndim == 2 else 0 * scores + 0.3) == []
