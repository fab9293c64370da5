"""What a candidate may lose: the policy's metrics in slices, floors under shares of next to nothing, few entities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.validation.quality.judged import failing, named

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.groups import groups_of
from tidegate_validation.quality.data.held_out import HeldOut, ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.judgement.scores import judge_scores
from tidegate_validation.quality.rule import QualityRule, Threshold
from tidegate_validation.statistics.arrays import Floats, Integers

ROWS = 6000
LAX = QualityRule(margin=0.5, loss_margin=5.0, auto_slices=0)


def buckets(random: np.random.Generator) -> Integers:
    return np.asarray(random.integers(0, 40, ROWS), dtype=np.int64)


def orders(seed: int = 0) -> tuple[pa.Table, Evaluation, Floats]:
    """Labels of two classes with honest probabilities; nothing is ever positive where the shop is `depot`."""
    random = np.random.default_rng(seed)
    shop = random.choice(["web", "north", "depot"], ROWS)
    chance = np.where(shop == "depot", 1e-6, random.beta(1, 2, ROWS))
    labels = (random.random(ROWS) < chance).astype(np.float64)
    return pa.table({"shop": shop}), Evaluation("binary", labels, buckets(random), ("0", "1"), clustered=False), chance


def compared(table: pa.Table, evaluation: Evaluation, mine: Floats, theirs: Floats, rule: QualityRule) -> list[Finding]:
    held = HeldOut(table, evaluation, "40 buckets", members="values of `user`")
    return judge_scores(ScoredExamples(held, mine, theirs, tuple(table.column_names)), rule)


@pytest.mark.parametrize("metric", ["accuracy", "balanced accuracy", "F1", "log loss"])
def test_slices_are_judged_by_the_metrics_of_the_policy(metric: str) -> None:
    """A monotone change keeps AUC, and other decisions in one slice spoil everything that decisions are judged by."""
    table, evaluation, chance = orders()
    web = np.asarray(table["shop"].to_pylist()) == "web"
    mine = np.where(web, chance**4, chance)
    by_auc = compared(table, evaluation, mine, chance, replace(LAX, metrics=("AUC",)))
    assert ("slice", "shop=web") not in failing(by_auc)
    found = compared(table, evaluation, mine, chance, replace(LAX, metrics=(metric,)))
    assert ("slice", "shop=web") in failing(found)
    finding = named(found, "slice", "shop=web")
    assert finding.cause is not None
    assert finding.cause["metric"] == metric


def test_a_search_is_judged_by_the_policys_metrics_as_well() -> None:
    random = np.random.default_rng(3)
    table, evaluation, chance = orders()
    table = table.append_column("vip", pa.array(random.random(ROWS) < 0.5))
    inside = (np.asarray(table["shop"].to_pylist()) == "web") & table["vip"].to_numpy(zero_copy_only=False)
    theirs = np.clip(chance + random.normal(0, 0.15, ROWS), 0, 1)
    mine = np.where(inside, 0.4 * theirs + 0.6 * random.random(ROWS), chance)
    rule = replace(LAX, metrics=("AUC",), auto_slices=5, slice_rows=200)
    finding = named(compared(table, evaluation, mine, theirs, rule), "slice", "shop=web and vip=True")
    assert finding.cause is not None
    assert finding.cause["metric"] == "AUC"


def test_a_slice_without_positives_is_no_share_of_nothing() -> None:
    table, evaluation, chance = orders()
    depot = np.asarray(table["shop"].to_pylist()) == "depot"
    harmless = compared(table, evaluation, np.where(depot, 0.01, chance), chance, LAX)
    assert failing(harmless) == []
    found = compared(table, evaluation, np.where(depot, 0.3, chance), chance, LAX)
    finding = named(found, "slice", "shop=depot")
    assert finding.outcome is Outcome.FAIL
    assert "its Brier score is worse by 0.09 (" in finding.sentence
    assert "%" not in finding.sentence
    assert finding.rule == "quality.slice_floor"


def numbers(error: float, seed: int = 0) -> tuple[Evaluation, Floats, Floats]:
    """Minutes that both models know nearly exactly, the candidate a little worse than the baseline."""
    random = np.random.default_rng(seed)
    labels = random.normal(30, 10, ROWS)
    evaluation = Evaluation("regression", labels, buckets(random), clustered=False)
    noise = np.where(random.random(ROWS) < 0.5, -1.0, 1.0)
    return evaluation, labels + (0.02 + error) * noise, labels + 0.02 * noise


@pytest.mark.parametrize("metric", ["absolute error", "squared error", "root mean squared error"])
def test_a_change_below_the_absolute_margin_refuses_nothing(metric: str) -> None:
    table = pa.table({"half": np.arange(ROWS) % 2})
    rule = QualityRule(metrics=(metric,), loss_floor=0.0, slice_floor=0.0)
    evaluation, mine, theirs = numbers(0.009)
    refused = failing(compared(table, evaluation, mine, theirs, rule))
    assert {(metric, "all examples"), ("slice", "half=0")} <= {*refused}
    assert failing(compared(table, evaluation, mine, theirs, replace(rule, absolute_margin=0.01))) == []
    evaluation, mine, theirs = numbers(0.02)
    found = compared(table, evaluation, mine, theirs, replace(rule, absolute_margin=0.01))
    assert named(found, metric, "all examples").outcome is Outcome.FAIL
    assert named(found, metric, "all examples").rule == "quality.absolute_margin"


def test_a_baseline_that_hardly_errs_leaves_room() -> None:
    """A hundred times next to nothing is still next to nothing."""
    random = np.random.default_rng(5)
    labels = random.normal(0, 1, ROWS)
    evaluation = Evaluation("regression", labels, buckets(random), clustered=False)
    mine, theirs = (labels + random.normal(0, size, ROWS) for size in (1e-4, 1e-5))
    table = pa.table({"half": np.arange(ROWS) % 2})
    assert failing(compared(table, evaluation, mine, theirs, QualityRule(metrics=("squared error",)))) == []
    worse = labels + random.normal(0, 0.1, ROWS)
    found = compared(table, evaluation, worse, theirs, QualityRule(metrics=("squared error",)))
    assert "squared error 0.010 against 1e-10" in named(found, "squared error").sentence


@pytest.mark.parametrize("better", [True, False])
def test_three_users_decide_nothing(better: bool) -> None:
    """Many rows of three users, who all fare far better or worse: no pass and no refusal, but what is missing."""
    random = np.random.default_rng(7)
    user = np.concatenate([np.repeat([0, 1, 2], 300), random.integers(3, 300, ROWS - 900)])
    table = pa.table({"user": user, "part": np.where(user < 3, "few", "rest")})
    grouped = groups_of(table, None, "user")
    truth = random.normal(0, 1.5, ROWS)
    labels = (random.random(ROWS) < 1 / (1 + np.exp(-truth))).astype(np.float64)
    evaluation = Evaluation(
        "binary", labels, grouped.numbers, ("0", "1"), clustered=grouped.clustered, members=grouped.members
    )
    good = 1 / (1 + np.exp(-truth))
    bad = np.where(user < 3, random.random(ROWS), good)
    mine, theirs = (good, bad) if better else (bad, good)
    rule = replace(LAX, slice_columns=("part",), thresholds=(Threshold("AUC", "part=few", lower=0.7),))
    found = compared(table, evaluation, mine, theirs, rule)
    assert [one.outcome for one in found if one.check == "slice" and one.subject == "part=few"] == [
        Outcome.INCONCLUSIVE
    ]
    said = named(found, "slice", "part=few").sentence
    assert "its 900 examples are of 3 values of `user`, and 6 are needed: hold out examples of 3 more" in said
    assert named(found, "threshold").outcome is Outcome.INCONCLUSIVE
    unasked = compared(table.select(["part"]), evaluation, mine, theirs, LAX)
    assert named(unasked, "slice", "part=few").outcome is Outcome.WARN
    enough = compared(table, evaluation, mine, theirs, replace(rule, slice_groups=3))
    assert "cannot be judged" not in " ".join(one.sentence for one in enough)
