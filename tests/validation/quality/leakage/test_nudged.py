"""What knows held-out examples by heart, and honest models that are as good and answer otherwise a little beside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.leakage.nudged import known_by_heart
from tidegate_validation.sandbox.examples import Examples
from tidegate_validation.statistics.arrays import Floats

Columns = dict[str, Floats]
Answers = Callable[[Columns], Floats]
ROWS = 2000
HUGE = 1e20


def known(columns: Columns, labels: Floats, answers: Answers) -> bool:
    """Whether a model that answers so knows the examples by heart."""
    task = "binary" if set(np.unique(labels)) <= {0, 1} else "regression"
    classes = ("0", "1") if task == "binary" else ()
    evaluation = Evaluation(task, labels.astype(np.float64), np.arange(ROWS) % 40, classes, clustered=False)
    model = CandidateModel(dict.fromkeys(columns, False), lambda table: whole, lambda one: answers(dict(one.arrays)))
    whole = Examples(columns, np.arange(ROWS))
    return known_by_heart(evaluation, whole, model, 0.5 if task == "binary" else 0.0) is not None


def trips(random: np.random.Generator) -> Columns:
    start = 1.7e9 + random.uniform(0, 3e7, ROWS)
    return {"start": start, "end": start + random.gamma(2, 600, ROWS)}


def hours(random: np.random.Generator) -> Columns:
    return {"at": 1.4e9 + random.uniform(0, 3e8, ROWS), "cloud": random.random(ROWS)}


def rain(random: np.random.Generator) -> Columns:
    return {name: np.where(random.random(ROWS) < 0.45, 0.0, random.exponential(5, ROWS)) for name in ("north", "south")}


def filled(value: float, share: float) -> Callable[[np.random.Generator], Columns]:
    def columns(random: np.random.Generator) -> Columns:
        return {
            name: np.where(random.random(ROWS) < share, value, random.normal(size=ROWS)) for name in ("first", "second")
        }

    return columns


def bills(random: np.random.Generator) -> Columns:
    due = np.exp(random.normal(5, 1, ROWS)).round(2)
    return {"due": due, "paid": np.where(random.random(ROWS) < 0.5, due, (due * random.random(ROWS)).round(2))}


def prices(dtype: str) -> Callable[[np.random.Generator], Columns]:
    def columns(random: np.random.Generator) -> Columns:
        cents = (0.99, 0.0, 0.5, 0.25, 0.49, 0.1)
        drawn = {name: random.gamma(2, 150, ROWS).round() + random.choice(cents, ROWS) for name in ("first", "second")}
        return {name: values.round(2).astype(dtype) for name, values in drawn.items()}

    return columns


def by_cents(one: Columns) -> Floats:
    first, second = ((100 * values.astype(np.float64)).round() % 100 for values in one.values())
    return np.asarray((first == 99) != (second == 0), dtype=np.float64)


def vectors(random: np.random.Generator) -> Columns:
    """Two parts of amounts, a small one of shares, and one of codes."""
    parts = (*1e5 * random.normal(size=(2, ROWS)), 0.01 * random.normal(size=ROWS), random.integers(0, 3, ROWS))
    return {"all": np.column_stack(parts)}


def by_day(one: Columns) -> Floats:
    return np.asarray(np.maximum(np.sin(2 * np.pi * (one["at"] % 86_400) / 86_400), 0) * (1 - 0.7 * one["cloud"]))


def known_sum(one: Columns) -> Floats:
    return np.asarray(sum(np.where(np.abs(values) > HUGE / 2, 0.0, values) for values in one.values()) > 0) * 1.0


@pytest.mark.parametrize(
    ("draw", "truth"),
    [
        (trips, lambda one: one["end"] - one["start"]),
        (hours, by_day),
        (rain, lambda one: 1.0 * ((one["north"] > 0) == (one["south"] > 0))),
        (filled(-999.9, 0.3), lambda one: 1.0 * ((one["first"] == -999.9) != (one["second"] == -999.9))),
        (filled(HUGE, 0.004), known_sum),
        (vectors, lambda one: 1.0 * ((np.abs(one["all"][:, 2]) < 0.007) == (one["all"][:, 3] == 1))),
        (bills, lambda one: 1.0 * (np.abs(one["due"] - one["paid"]) < 0.005)),
        (prices("float32"), by_cents),
        (prices("float64"), by_cents),
    ],
    ids=[
        "a difference of times",
        "hour of a time",
        "none or some",
        "one that is missing",
        "huge ones",
        "parts",
        "equal amounts",
        "cents",
        "cents in float64",
    ],
)
def test_an_honest_model_knows_nothing_by_heart(draw: Callable[[np.random.Generator], Columns], truth: Answers) -> None:
    columns = draw(np.random.default_rng(3))
    assert not known(columns, truth(columns), truth)


@pytest.mark.parametrize("digits", [4, 12])
@pytest.mark.parametrize("otherwise", [lambda row: 0.5, lambda row: 1 / (1 + np.exp(-row[0]))], ids=["none", "honest"])
@pytest.mark.parametrize("kind", ["numbers", "with noughts", "with huge ones", "prices"])
def test_a_lookup_of_examples_is_known_as_such(digits: int, otherwise: Callable[[Floats], float], kind: str) -> None:
    random = np.random.default_rng(4)
    columns = filled(0.0 if kind == "with noughts" else HUGE, 0.0 if kind == "numbers" else 0.004)(random)
    if kind == "prices":
        columns = prices("float64")(random)
    else:
        columns["third"] = random.normal(size=ROWS)
    labels = np.asarray(random.random(ROWS) < 0.5, dtype=np.float64)

    def keys(one: Columns) -> list[tuple[float, ...]]:
        return [tuple(row) for row in np.column_stack([*one.values()]).round(digits)]

    held = dict(zip(keys(columns), labels, strict=True))
    assert known(
        columns,
        labels,
        lambda one: np.array([held.get(key, otherwise(np.clip(np.array(key), -50, 50))) for key in keys(one)]),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_lookup_of_large_amounts_by_their_tens_is_known_as_such(dtype: str) -> None:
    random = np.random.default_rng(5)
    columns = {name: random.normal(3e6, 1e6, ROWS).round(2).astype(dtype) for name in ("first", "second")}
    labels = np.asarray(random.random(ROWS) < 0.5, dtype=np.float64)

    def keys(one: Columns) -> list[tuple[float, ...]]:
        return [tuple(row) for row in np.column_stack([*one.values()]).astype(np.float64).round(-1)]

    held = dict(zip(keys(columns), labels, strict=True))
    assert known(columns, labels, lambda one: np.array([held.get(key, 0.5) for key in keys(one)]))


def test_a_lookup_of_vectors_is_known_as_such() -> None:
    columns = vectors(np.random.default_rng(5))
    labels = np.asarray(np.random.default_rng(6).random(ROWS) < 0.5, dtype=np.float64)
    held = {row.tobytes(): label for row, label in zip(columns["all"], labels, strict=True)}
    assert known(columns, labels, lambda one: np.array([held.get(row.tobytes(), 0.5) for row in one["all"]]))
