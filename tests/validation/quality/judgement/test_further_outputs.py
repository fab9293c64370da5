"""Outputs beside the prediction, against the baseline's: what a retrain does to them is fine, mistakes are named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.validation import world
from tests.validation.quality.judged import judged
from tests.validation.world import Draft

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.quality.judgement.further_outputs import judge_further_outputs
from tidegate_validation.statistics.arrays import Floats

Outputs = dict[str, Floats]
ROWS = 800


def version(seed: int) -> Outputs:
    """What a version answers: a median between two bounds, a duration, a class, a score of noise, an embedding, and how
    far the median is from what is usual, between bounds of its own."""
    truth, random = np.random.default_rng(0), np.random.default_rng(seed)
    x, y = truth.normal(size=(2, ROWS))

    def learned(values: Floats, error: float) -> Floats:
        return (values + error * random.normal(size=ROWS) + 0.2 * error)[:, None]

    return {
        "median": learned(20 + 4 * x, 0.5),
        "low": learned(16 + 4 * x - np.abs(y), 0.7),
        "high": learned(24 + 4 * x + np.abs(y), 0.7),
        "minutes": np.exp(learned(3 + x, 0.3)),
        "class": random.permutation(4)[np.digitize(y, [-1, 0, 1])].astype(np.int64)[:, None],
        "noise": learned(0 * x, 1.0),
        "unusual": learned(np.abs(x), 0.1),
        "least": learned(40 + 4 * x - 2, 0.2),
        "most": learned(40 + 4 * x + 2, 0.2),
        "vector": random.normal(size=(ROWS, 3)) @ random.normal(size=(3, 3)),
    }


def told(changed: Callable[[Outputs], Outputs], seed: int = 2) -> list[Finding]:
    candidate = version(seed)
    return judge_further_outputs({**candidate, **changed(candidate)}, version(1), "median")


@pytest.mark.parametrize("seed", range(2, 12))
def test_a_sound_retrain_is_told_nothing(seed: int) -> None:
    assert told(lambda outputs: {}, seed) == []


@pytest.mark.parametrize(
    ("subject", "cause", "words", "changed"),
    [
        (
            "low, high",
            {"kind": "swapped", "outputs": {"low": "high", "high": "low"}},
            "the output `low` is swapped with `high`",
            lambda one: {"low": one["high"], "high": one["low"]},
        ),
        (
            "median, high, low",
            {"kind": "swapped", "outputs": {"median": "high", "low": "median", "high": "low"}},
            "`median` answers what was `high`, `high` answers what was `low`",
            lambda one: {"low": one["median"], "median": one["high"], "high": one["low"]},
        ),
        (
            "minutes",
            {"kind": "constant"},
            "`minutes` is constant, 12.5, for all 800",
            lambda one: {"minutes": 0 * one["minutes"] + 12.5},
        ),
        ("class", {"kind": "constant"}, "constant, 0,", lambda one: {"class": 0 * one["class"]}),
        ("minutes", {"kind": "factor"}, "60", lambda one: {"minutes": 60 * one["minutes"]}),
        ("high", {"kind": "factor"}, "times that of the version that serves", lambda one: {"high": -one["high"]}),
        ("low", {"kind": "factor"}, "times that", lambda one: {"low": one["low"] / 1000}),
        ("noise", {"kind": "beyond"}, "lies beyond that of", lambda one: {"noise": one["noise"] + 40}),
        (
            "minutes",
            {"kind": "unrelated"},
            "no longer goes with the prediction `median`",
            lambda one: {"minutes": np.random.default_rng(5).permutation(one["minutes"])},
        ),
        (
            "unusual",
            {"kind": "unrelated"},
            "no longer goes with the prediction `median`",
            lambda one: {"unusual": np.random.default_rng(5).permutation(one["unusual"])},
        ),
        (
            "least, most",
            {"kind": "crossed"},
            "`least` lies above `most` for 10 % of the held-out examples",
            lambda one: {
                "least": np.where(np.arange(ROWS)[:, None] % 10 == 3, one["most"], one["least"]),
                "most": np.where(np.arange(ROWS)[:, None] % 10 == 3, one["least"], one["most"]),
            },
        ),
        (
            "least, most",
            {"kind": "apart"},
            "`least` and `most` lie 0.198 times",
            lambda one: {"most": one["least"] + 0.2 * (one["most"] - one["least"])},
        ),
    ],
)
def test_a_mistake_is_named_with_its_output(
    subject: str, cause: dict[str, object], words: str, changed: Callable[[Outputs], Outputs]
) -> None:
    (found,) = told(changed)
    assert (found.check, found.subject, found.outcome) == ("outputs", subject, Outcome.WARN)
    assert found.cause is not None
    assert cause.items() <= found.cause.items()
    assert words in found.sentence


def test_outputs_that_moved_with_the_prediction_are_in_its_unit() -> None:
    """Prices that doubled everywhere: labels say whether the prediction is right."""
    assert told(lambda one: {name: 2 * one[name] for name in ("median", "low", "high")}) == []


@pytest.mark.parametrize(
    ("error", "width", "held"),
    [(1.5, 1.9, None), (4.0, 1.5, 29), (1.5, 12.0, 100)],
    ids=["better known", "too narrow", "too wide"],
)
def test_bounds_that_hold_as_many_labels_as_before_may_lie_nearer_together(
    error: float, width: float, held: int | None
) -> None:
    """As those of a version that knows more; how many they hold is told of others."""
    random = np.random.default_rng(4)
    known, more, noise = 10 * random.normal(size=ROWS), 3.7 * random.normal(size=ROWS), random.normal(size=ROWS)
    labels = known + more + error * noise

    def answers(middle: Floats, reach: float) -> Outputs:
        return {"middle": middle[:, None], "least": middle[:, None] - reach, "most": middle[:, None] + reach}

    before, now = answers(known, 1.28 * np.hypot(3.7, error)), answers(known + more, width)
    found = judge_further_outputs(now, before, "middle", labels)
    assert [one.subject for one in found] == ([] if held is None else ["least, most"])
    for one in found:
        told = re.search(r"they hold (\d+) % of the labels, (\d+) % before", one.sentence)
        assert told is not None
        assert [int(share) for share in told.groups()] == pytest.approx([held, 80], abs=4)


def test_bounds_that_cross_are_named_before_what_lies_between_them() -> None:
    middle, crossed = 10 * np.random.default_rng(4).normal(size=(ROWS, 1)), np.arange(ROWS)[:, None] % 5 == 0
    before = {"middle": middle, "least": middle - 2, "most": middle + 2}
    now = {
        **before,
        "least": np.where(crossed, middle + 2, middle - 2),
        "most": np.where(crossed, middle - 2, middle + 2),
    }
    (told,) = judge_further_outputs(now, before, "middle")
    assert told.subject == "least, most"


def test_an_output_that_is_mostly_missing_hides_no_other() -> None:
    """As one that only some requests ask for."""
    rare = np.where(np.arange(ROWS)[:, None] % 50 == 0, 1.0, np.nan)
    before, now = {**version(1), "rare": rare}, {**version(2), "rare": rare + 0.1}
    (told,) = judge_further_outputs({**now, "low": now["high"], "high": now["low"]}, before, "median")
    assert told.subject == "low, high"


def test_a_few_rows_and_answers_that_were_constant_say_nothing() -> None:
    few = {name: values[:40] for name, values in version(1).items()}
    assert judge_further_outputs({**few, "low": few["high"], "high": few["low"]}, few, "median") == []
    flat = {**version(1), "low": 0 * version(1)["low"] + 3.0}
    assert judge_further_outputs(version(2), flat, "median") == []


BOUNDS = """
import numpy as np

class Model:
    def predict(self, inputs):
        score = 0.45 * (inputs["weight"].astype(np.float64) - 5.0) + 0.8 * (inputs["depot"] == b"east")
        middle, low, high = ((1 / (1 + np.exp(-score - move))).astype(np.float32) for move in (0.0, -0.7, 0.7))
        return {"probability": middle, "low": low, "high": high, "depot": inputs["depot"]}
"""
OUTPUTS = (TensorSpec("probability", "float32"), TensorSpec("low", "float32"), TensorSpec("high", "float32"))
WITH_BOUNDS = Signature(world.INPUTS, (*OUTPUTS, TensorSpec("depot", "string")))


def test_the_gate_compares_outputs_that_both_versions_have(tmp_path: Path) -> None:
    swapped = BOUNDS.replace('"low": low, "high": high', '"low": high, "high": low')
    table, sound = world.parcels(4000, seed=21), Draft(BOUNDS, WITH_BOUNDS)
    found = judged(tmp_path / "both", Draft(swapped, WITH_BOUNDS), sound, table)
    (warned,) = [one for one in found if one.outcome is not Outcome.PASS]
    assert (warned.check, warned.subject, warned.outcome) == ("outputs", "low, high", Outcome.WARN)
    first = judged(tmp_path / "first", Draft(swapped, WITH_BOUNDS), None, table)
    (told,) = [one for one in first if one.check == "outputs"]
    assert "by their names it is to lie below" in told.sentence
    retrained = judged(tmp_path / "same", Draft(BOUNDS.replace("0.45", "0.44"), WITH_BOUNDS), sound, table)
    assert [one for one in retrained if one.check == "outputs"] == []
