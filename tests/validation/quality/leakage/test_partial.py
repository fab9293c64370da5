"""Leaks that reach only a part of the rows are found by what the candidate lives on; honest data raises no alarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from tests.validation import world
from tests.validation.quality.judged import failing, judged, named
from tests.validation.world import Draft, before_return

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.leakage.partial import Answers, partial_leak
from tidegate_validation.quality.leakage.parts import parts_of
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.sandbox.examples import Examples
from tidegate_validation.statistics.arrays import Floats, Mask

ROWS = 3000


class World:
    """Honest inputs with a label of two classes or of numbers, for training and for judging."""

    def __init__(self, seed: int, task: str = "binary", rows: int = ROWS) -> None:
        self.random = np.random.default_rng(seed)
        self.task = task
        size = 2 * rows
        self.part: Mask = self.random.random(size) < 0.3
        self.shop = self.random.choice([0, 1, 2, 3], size, p=[0.4, 0.3, 0.2, 0.1])
        strength = self.random.normal(0, 1, size)
        odds = strength + 0.8 * (self.shop == 1)
        if task == "binary":
            self.labels = (self.random.random(size) < 1 / (1 + np.exp(-odds))).astype(np.float64)
        else:
            self.labels = odds + self.random.normal(0, 1, size)
        gaps = np.where(self.random.random(size) < 0.2, np.nan, self.random.normal(0, 1, size))
        zeros = np.where(self.random.random(size) < 0.5, 0.0, odds + self.random.normal(0, 2, size))
        names = np.array([b"web", b"north", b"south", b"depot"], dtype=object)
        self.inputs: dict[str, Array] = {
            "strength": strength,
            "shop": names[self.shop],
            "gaps": gaps,
            "zeros": zeros,
            "flag": self.random.random(size) < 0.5,
        }

    def judged(self, rule: QualityRule | None = None, first: bool = False) -> Finding | None:
        """With trees as candidate, against trees of the honest inputs."""
        half = len(self.labels) // 2
        held = Examples({name: array[half:] for name, array in self.inputs.items()}, np.arange(half))
        evaluation = Evaluation(self.task, self.labels[half:], np.arange(half) % 40, ("0", "1"), clustered=False)
        kind = HistGradientBoostingClassifier if self.task == "binary" else HistGradientBoostingRegressor

        def fitted(names: list[str]) -> Callable[[Examples], Floats]:
            learner = kind(max_iter=25, random_state=0)
            learner.fit(matrix({name: self.inputs[name][:half] for name in names}), self.labels[:half])

            def score(examples: Examples) -> Floats:
                seen = matrix({name: examples.arrays[name] for name in names})
                return np.asarray(learner.predict_proba(seen)[:, 1] if self.task == "binary" else learner.predict(seen))

            return score

        mine = fitted([*self.inputs])
        # Trees of the same inputs are the same trees, and those of a first version are asked by nobody.
        theirs = mine if first or "leak" not in self.inputs else fitted([one for one in self.inputs if one != "leak"])
        shared = {name: name != "leak" and not first for name in self.inputs}
        model = CandidateModel(shared, lambda table: held, mine)
        answers = Answers(evaluation, held, mine(held), None if first else theirs(held))
        return partial_leak(answers, model, rule or QualityRule())


def matrix(inputs: Mapping[str, Array]) -> Floats:
    columns = [
        np.unique(array.astype(str), return_inverse=True)[1] if array.dtype == object else array.astype(np.float64)
        for array in inputs.values()
    ]
    return np.column_stack(columns)


def leaking(one: World, kind: str) -> Array:
    """An input that tells the label in about three of ten rows, and nothing elsewhere."""
    labels, noise = one.labels, one.random.normal(0, 1, len(one.labels))
    known = labels + 0.02 * one.random.normal(0, 1, len(labels))
    return {
        "missing elsewhere": np.where(one.part, known, np.nan),
        "a default elsewhere": np.where(one.part, 5 + known, 0.0),
        "noise elsewhere": np.where(one.part, labels, noise),
        "higher, and noisy": np.where(one.part, 6 + 2 * labels + 0.4 * noise, noise),
        "lower, and noisy": np.where(one.part, -9 - 2 * labels + 0.4 * noise, noise),
        "missing where positive": np.where(one.part & (labels == 1), np.nan, noise),
        "words": np.where(one.part, np.where(labels == 1, b"returned", b"kept"), b"open").astype(object),
        "where strong": np.where(one.inputs["strength"] > 0.7, labels, 3 * noise),
        "one shop": np.where(one.shop == 1, known, one.random.choice(known, len(known))),
    }[kind]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        "missing elsewhere",
        "a default elsewhere",
        "noise elsewhere",
        "higher, and noisy",
        "lower, and noisy",
        "missing where positive",
        "words",
        "one shop",
    ],
)
def test_a_leak_in_a_part_of_the_rows_is_found_and_named(kind: str, first: bool) -> None:
    one = World(1)
    one.inputs["leak"] = leaking(one, kind)
    found = one.judged(first=first)
    assert found is not None
    assert (found.subject, found.outcome) == ("leak", Outcome.FAIL)
    assert found.cause is not None
    assert 0.1 < found.cause["share"] < 0.4
    trusted = one.judged(QualityRule(trusted=("leak",)), first)
    assert trusted is not None
    assert trusted.outcome is Outcome.WARN


@pytest.mark.parametrize(
    "kind", ["missing elsewhere", "noise elsewhere", "higher, and noisy", "where strong", "one shop"]
)
def test_numbers_leak_in_parts_as_well(kind: str) -> None:
    one = World(2, "regression")
    one.inputs["leak"] = leaking(one, kind)
    found = one.judged()
    assert found is not None
    assert (found.subject, found.outcome) == ("leak", Outcome.FAIL)


@pytest.mark.parametrize("shares", [(0.4, 0.25, 0.15, 0.12, 0.08), (0.85, 0.15)])
def test_frequent_and_rare_values_that_tell_the_label_are_one_part(shares: tuple[float, ...]) -> None:
    """Of 8 % of the rows an input knows the class; only the most frequent class has a mass of rows there."""
    random = np.random.default_rng(6)
    labels = random.choice(len(shares), 12_000, p=shares).astype(np.float64)
    known = random.random(12_000) < 0.08
    task = "binary" if len(shares) == 2 else "multiclass"
    evaluation = Evaluation(task, labels, np.arange(12_000) % 40, tuple("abcde"[: len(shares)]), clustered=False)
    inputs = {"leak": np.where(known, labels, -9.0), "noise": random.normal(0, 1, 12_000)}
    found = [*parts_of(evaluation, inputs, 0.05, 0.95, lambda inside: False)]
    assert any(one.name == "leak" and (one.inside == known).all() for one in found)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_honest_small_data_raises_no_alarm(task: str) -> None:
    """Of 200 data sets none, half of them judged as first versions."""
    alarms = [World(100 + seed, task, rows=700).judged(first=seed % 2 == 0) for seed in range(100)]
    assert sum(one is not None for one in alarms) == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_rule_that_decides_at_one_end_of_an_honest_input_is_no_leak(seed: int) -> None:
    """Such as a threshold of age: the input is there what it is elsewhere, and has no values apart from the others."""
    one = World(200 + seed)
    strength = one.inputs["strength"]
    one.labels = np.where(strength > 0.6, strength > 1, one.labels).astype(np.float64)
    assert one.judged(first=True) is None


def test_a_default_that_honest_models_know_as_well_is_no_leak() -> None:
    """What the baseline makes of the same rows is what can be known of them."""
    one = World(3)
    one.labels = np.where(one.shop == 1, 1.0, one.labels)
    assert one.judged() is None


def test_the_gate_refuses_a_leak_in_a_part_of_the_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    table = world.parcels(4000, seed=5)
    known = np.where(random.random(4000) < 0.12, table[world.LABEL].to_numpy(), np.nan)
    table = world.with_column(table, "checked", known.astype(np.float32))
    line = 'score = score + np.nan_to_num(20.0 * (inputs["checked"] - 0.5))'
    signature = Signature((*world.INPUTS, TensorSpec("checked", "float32")), world.OUTPUT)
    found = judged(tmp_path, Draft(before_return(line), signature), Draft(), table)
    assert failing(found) == [("too good", "checked")]
    assert "`checked` tells the label where `checked` is" in named(found, "too good").sentence
