"""The quality gate's numbers: metrics, their errors, and how often equal models are called unequal."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score
from tests.validation import world

from tidegate_serving.admission.verdict import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.quality.data.groups import groups_of
from tidegate_validation.quality.data.outputs import Prediction, as_scores, prediction_output
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.single_feature import single_feature_power
from tidegate_validation.quality.metrics.auc import auc_influence
from tidegate_validation.quality.metrics.gains import compare_models, power
from tidegate_validation.quality.rule import QualityRule, not_inferior
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.jackknife import mean

RULE = QualityRule()


def test_auc_is_scikit_learns_with_ties_and_all() -> None:
    random = np.random.default_rng(0)
    labels = (random.random(500) < 0.3).astype(np.float64)
    scores = np.round(random.random(500) + 0.3 * labels, 1)
    assert auc_influence(labels == 1, scores)[0] == pytest.approx(roc_auc_score(labels, scores))
    assert np.isnan(auc_influence(np.ones(5, dtype=bool), np.ones(5))[0])


def test_the_jackknife_knows_the_error_of_a_mean() -> None:
    values = np.random.default_rng(1).normal(3, 2, 4000)
    found = mean(values, np.arange(4000) % 40).estimate()
    assert found.value == pytest.approx(values.mean())
    assert found.error == pytest.approx(2 / np.sqrt(4000), rel=0.4)
    without = [values[np.arange(4000) % 40 != group].mean() for group in range(40)]
    assert found.error == pytest.approx(np.sqrt(39 / 40 * np.sum((without - np.mean(without)) ** 2)))


def test_rows_of_one_day_are_not_taken_for_many() -> None:
    """Days that err together: grouped by day the error of the mean is several times that of shuffled groups."""
    random = np.random.default_rng(2)
    days = np.repeat(np.arange(30), 200)
    values = random.normal(0, 1, 30)[days] + random.normal(0, 1, 6000)
    by_day = mean(values, days).estimate().error
    shuffled = mean(values, random.permutation(days)).estimate().error
    assert by_day > 5 * shuffled


def models(seed: int, noise: float, rows: int = 3000) -> tuple[Evaluation, Floats, Floats]:
    """Labels with the scores of two models of the truth, the second with more noise."""
    random = np.random.default_rng(seed)
    truth = random.normal(0, 1.2, rows)
    labels = (random.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.float64)

    def scores(spread: float) -> Floats:
        return np.asarray(1 / (1 + np.exp(-(truth + random.normal(0, spread, rows)))))

    return Evaluation("binary", labels, np.arange(rows) % 40), scores(0.25), scores(noise)


def outcomes(evaluation: Evaluation, candidate: Floats, baseline: Floats) -> set[Outcome]:
    margins = {"AUC": RULE.margin, "Brier score": RULE.loss_margin}
    gains = compare_models(evaluation, candidate, baseline)
    return {not_inferior(one.gain, margins[one.metric], RULE.alpha) for one in gains if one.metric in margins}


def test_equal_models_never_fail_and_mostly_pass() -> None:
    found = [outcomes(*models(seed, 0.25)) for seed in range(40)]
    assert sum(Outcome.FAIL in one for one in found) <= 1
    assert sum(one == {Outcome.PASS} for one in found) >= 25


def test_a_worse_model_fails() -> None:
    for seed in range(10):
        evaluation, good, bad = models(seed, 1.5)
        assert Outcome.FAIL in outcomes(evaluation, bad, good)
        assert outcomes(evaluation, good, bad) == {Outcome.PASS}


def test_few_examples_are_inconclusive() -> None:
    found = [Outcome.INCONCLUSIVE in outcomes(*models(seed, 0.25, rows=220)) for seed in range(10)]
    assert sum(found) >= 6


def test_regression_is_compared_by_its_errors() -> None:
    random = np.random.default_rng(3)
    labels = random.normal(10, 3, 4000)
    evaluation = Evaluation("regression", labels, np.arange(4000) % 40)
    good, bad = labels + random.normal(0, 1, 4000), labels + random.normal(0, 1.3, 4000)
    gains = {one.metric: one.gain for one in compare_models(evaluation, bad, good)}
    assert set(gains) == {"squared error", "absolute error", "root mean squared error", "R²", "quantile loss"}
    assert gains["squared error"].value == pytest.approx(1 - 1.69, abs=0.1)
    assert all(not_inferior(gain, RULE.loss_margin, RULE.alpha) is Outcome.FAIL for gain in gains.values())
    assert power(evaluation, good).value == pytest.approx(1 - 1 / 9, abs=0.02)


@pytest.mark.parametrize("kind", ["number", "hump", "category", "noise"])
def test_what_one_input_tells_alone(kind: str) -> None:
    random = np.random.default_rng(4)
    labels = (random.random(6000) < 0.4).astype(np.float64)
    columns = {
        "number": labels + random.normal(0, 0.3, 6000),
        "hump": np.where(labels == 1, random.uniform(-1, 1, 6000), random.choice([-2.0, 2.0], 6000)),
        "category": np.where(labels == 1, "yes", "no").astype(object),
        "noise": random.normal(0, 1, 6000),
    }
    alone = single_feature_power(Evaluation("binary", labels, np.arange(6000) % 40), columns[kind])
    assert (alone > 0.95) is (kind != "noise")
    assert alone >= 0.5


def test_groups_are_days_where_there_are_enough_else_buckets_of_the_entity() -> None:
    month, week = world.parcels(900, seed=1, days=30), world.parcels(900, seed=1, days=7)
    days = groups_of(month, world.TIME, None)
    assert (days.words, days.clustered) == ("30 days", True)
    first = month[world.TIME].to_numpy() // world.DAY
    assert np.array_equal(days.numbers, first - first.min())
    by_chance = groups_of(week, world.TIME, None)
    assert (by_chance.words, by_chance.clustered) == ("40 random buckets", False)
    named = world.with_column(week, "user", [f"u{row % 90}" for row in range(900)])
    users = groups_of(named, world.TIME, "user")
    assert (users.words, users.clustered) == ("40 buckets of `user`", True)
    assert all(len(set(users.numbers[user::90].tolist())) == 1 for user in range(90))
    assert not groups_of(world.with_column(week, "id", list(range(900))), None, "id").clustered
    with pytest.raises(InvalidInput, match="entity 'nobody' is no column"):
        groups_of(week, None, "nobody")


def manifest(outputs: tuple[TensorSpec, ...], **metadata: str) -> Manifest:
    signature = Signature((TensorSpec("x", "float32"),), outputs)
    return Manifest(ServableId("m", 1), "python", {"serving_default": signature}, (), "", metadata=metadata)


def test_the_prediction_is_the_plain_output_or_the_one_that_is_named() -> None:
    label, score, other = TensorSpec("label", "int64"), TensorSpec("probability", "float32"), TensorSpec("z", "float32")

    def chosen(*outputs: TensorSpec, **metadata: str) -> str:
        made = manifest(outputs, **metadata)
        return prediction_output(made, made.signatures["serving_default"])

    assert chosen(label, score) == "probability"
    assert chosen(label) == "label"
    assert chosen(score, other) == "probability"
    assert chosen(score, other, **{"quality.output": "z"}) == "z"
    with pytest.raises(InvalidInput, match=r"metadata 'quality\.output'"):
        chosen(other, TensorSpec("w", "float32"))
    with pytest.raises(InvalidInput, match="is no output"):
        chosen(score, **{"quality.output": "nothing"})


def test_of_two_class_probabilities_the_second_counts() -> None:
    pairs = np.array([[0.9, 0.1], [0.2, 0.8]], dtype=np.float32)
    prediction = Prediction(TensorSpec("p", "float32", (-1, 2)))
    assert as_scores(prediction, "binary", ("0", "1"), {"p": pairs}).tolist() == pytest.approx([0.1, 0.8])
    with pytest.raises(InvalidInput, match=r"shape \[1, 3\]"):
        as_scores(prediction, "binary", ("0", "1"), {"p": np.zeros((1, 3))})


def test_tables_digest_alike_however_they_are_chunked() -> None:
    from tidegate_validation.gates import table_digest

    table = world.parcels(500, seed=3)
    pieces = pa.concat_tables([table.slice(0, 200), table.slice(200)])
    assert table_digest(pieces) == table_digest(table)
    assert table_digest(world.scaled(table, "weight", 2)) != table_digest(table)
