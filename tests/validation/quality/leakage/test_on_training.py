"""Versions that know held-out examples better than training data: for these were harder, or for they were fitted on
them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import HuberRegressor, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from tidegate_serving.admission import Outcome
from tidegate_validation.quality.data.held_out import HeldOut, ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.leakage.on_training import judge_on_training
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.sandbox.examples import Examples
from tidegate_validation.statistics.arrays import Floats

NAMES = ("first", "second", "third")
Rows = tuple[Floats, Floats]


def outcomes(held_out: Rows, training: Rows, answers: Callable[[Floats], Floats]) -> list[Outcome]:
    """What is said of a first version that answers so."""

    def table(rows: Rows) -> pa.Table:
        return pa.table({**dict(zip(NAMES, rows[0].T, strict=True)), "label": rows[1]})

    def examples(of: pa.Table) -> Examples:
        return Examples({name: of[name].to_numpy() for name in NAMES}, np.arange(of.num_rows))

    def scores(of: Examples) -> Floats:
        return answers(np.column_stack([of.arrays[name] for name in NAMES]))

    task = "binary" if set(np.unique(held_out[1])) == {0, 1} else "regression"
    classes = ("0", "1") if task == "binary" else ()
    evaluation = Evaluation(
        task, held_out[1].astype(np.float64), np.arange(len(held_out[1])) % 40, classes, clustered=False
    )
    scored = ScoredExamples(
        HeldOut(table(held_out), evaluation, "40 random buckets"), answers(held_out[0]), None, NAMES
    )
    model = CandidateModel(dict.fromkeys(NAMES, False), examples, scores)
    return [one.outcome for one in judge_on_training(scored, model, table(training), "label", QualityRule())]


def drawn(seed: int, rows: int, flipped: float = 0.0) -> Rows:
    """Rows with a label that is wrong in a share of them."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 3))
    sure = 1 / (1 + np.exp(-2.5 * (values @ [1.2, -0.8, 0.6] - 1.5)))
    labels = np.asarray(random.random(rows) < sure)
    return values, (labels ^ (random.random(rows) < flipped)).astype(np.int64)


def hardest(rows: Rows) -> Rows:
    """All of the rarer class, and what is most like them of the other."""
    values, labels = rows
    likeness = np.where(labels == 1, -np.inf, values @ [1.2, -0.8, 0.6])
    kept = np.concatenate([np.flatnonzero(labels), np.argsort(-likeness)[: labels.sum()]])
    return values[kept], labels[kept]


@pytest.mark.parametrize(
    "training", [hardest(drawn(1, 8000)), drawn(1, 3000, flipped=0.3)], ids=["hard", "mislabelled"]
)
def test_training_data_that_is_harder_is_no_fault(training: Rows) -> None:
    fitted = LogisticRegression().fit(*training)
    assert outcomes(drawn(2, 2500), training, lambda values: fitted.predict_proba(values)[:, 1]) == []


def test_training_data_with_wrong_numbers_is_no_fault() -> None:
    random = np.random.default_rng(3)
    values = random.normal(size=(5000, 3))
    labels = values @ [1.0, -2.0, 0.5] + random.normal(size=5000)
    wrong = labels + np.where(random.random(5000) < 0.02, random.normal(0, 60, 5000), 0)
    fitted = HuberRegressor().fit(values[:3000], wrong[:3000])
    assert outcomes((values[3000:], labels[3000:]), (values[:3000], wrong[:3000]), fitted.predict) == []


@pytest.mark.parametrize("training", [hardest(drawn(1, 8000)), drawn(1, 3000)], ids=["hard", "alike"])
def test_a_version_that_was_fitted_on_held_out_examples_is_told_of(training: Rows) -> None:
    held_out = drawn(2, 2500, flipped=0.2)
    fitted = KNeighborsClassifier(3).fit(*held_out)
    told = outcomes(held_out, training, lambda values: fitted.predict_proba(values)[:, 1])
    assert told == [Outcome.WARN]


def test_it_is_told_of_where_honest_learners_do_nearly_as_well() -> None:
    """A weak version, with a table of the held-out examples' mean labels; learners find what it lacks."""

    def sold(seed: int) -> Rows:
        random = np.random.default_rng(seed)
        values = np.column_stack([random.normal(size=(3000, 2)), random.integers(0, 700, 3000)])
        sure = 1 / (1 + np.exp(-1.2 * values[:, 0] - 1.2 * values[:, 0] * values[:, 1]))
        return values, np.asarray(random.random(3000) < sure).astype(np.int64)

    held_out = sold(2)
    articles = held_out[0][:, 2].astype(int)
    means = np.bincount(articles, weights=held_out[1], minlength=700) / np.bincount(articles, minlength=700).clip(1)
    told = outcomes(held_out, sold(1), lambda values: 1.2 * values[:, 0] + 4 * means[values[:, 2].astype(int)])
    assert told == [Outcome.WARN]
