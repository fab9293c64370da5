"""How answers and numbers are judged: the rule, growth, latency intervals, and limits that make no sense."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.robustness.finding import milliseconds
from tidegate_validation.robustness.growth import UsageHistory, keeps_growing
from tidegate_validation.robustness.judgement import Unit, judge_answer, largest_difference, rough_units, units_of
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.probes import Likelihood
from tidegate_validation.robustness.stages.beside_baseline import ratio_interval
from tidegate_validation.robustness.stages.latency import quantile_interval
from tidegate_validation.sandbox.answer import Answer, AnswerKind

OUTPUTS = Answer(AnswerKind.OUTPUTS, outputs={"y": np.array([1.0])})
NAN = Answer(AnswerKind.OUTPUTS, outputs={"y": np.array([np.nan])})
DIED = Answer(AnswerKind.DIED, words="was ended by SIGSEGV")


def refused(*raised: str) -> Answer:
    return Answer(AnswerKind.REFUSED, words="no", raised=raised)


@pytest.mark.parametrize(
    ("counts", "grows"),
    [
        ([6] * 160, False),
        ([6 + call for call in range(160)], True),
        ([6 + call // 8 for call in range(160)], True),
        ([6 + min(call, 40) for call in range(160)], False),
        ([6 + call % 5 for call in range(160)], False),
        ([6] * 150 + [12] * 10, False),
    ],
    ids=["flat", "each call", "each eighth", "a pool that fills", "to and fro", "one step"],
)
def test_what_fills_up_is_no_leak(counts: list[int], grows: bool) -> None:
    assert keeps_growing(counts) is grows


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (np.array([12345678]), np.array([12345700]), 22.0),
        (np.array([2**60, 5]), np.array([2**60 + 1, 5]), 1.0),
        (np.array([3], "u1"), np.array([5], "u1"), 2.0),
        (np.array([7]), np.array([7]), 0.0),
        (np.array([100.0]), np.array([101.0]), 1 / 101),
    ],
)
def test_whole_numbers_differ_by_what_they_differ(one: Any, other: Any, difference: float) -> None:
    assert largest_difference({"y": one}, {"y": other}) == difference


@pytest.mark.parametrize(
    ("dtype", "size", "unit"),
    [
        ("f8", 1e-7, 1e-7),
        ("f8", 0.0, 1e-9),
        ("f4", 1e-7, 1e-2),
        ("f4", 0.25, 0.25),
        ("f2", 0.25, 1.0),
        ("f8", 9.0, 1.0),
    ],
)
def test_fractions_differ_by_what_the_output_is_like(dtype: str, size: float, unit: float) -> None:
    values = np.array([size, -size / 2], dtype)
    units = units_of({"y": values}, {})
    assert units["y"].size == pytest.approx(unit)
    later = units_of({"y": values / 10, "n": np.array([3])}, units)
    assert {name: one.size for name, one in later.items()} == {"y": units["y"].size}
    rough = rough_units({**units, "other": Unit()}, {"y": values})
    assert rough == {"y": Unit(1.0 if dtype != "f8" else units["y"].size)}
    moved = values + np.array([0, unit / 10], dtype)
    assert largest_difference({"y": moved}, {"y": values}, units) == pytest.approx(
        min(0.1, 0.1 * unit / max(size / 2, unit)), rel=0.01
    )


@pytest.mark.parametrize(
    ("values", "moved", "differs"),
    [
        (1.7e9 + np.arange(9) * 3600.7, 3600.0, True),
        (1.7e9 + np.arange(9) * 3600.7, 900.0, False),
        (1.7e9 + np.arange(9) * 0.7, 3600.0, True),
        ((1.7e9 + np.arange(9) * 3600.7).astype("f4").astype("f8"), 3600.0, False),
        (1.7e9 + np.arange(9) * 3600.7 - 1.7e9, 3600.0, True),
        (280.0 + np.arange(9) * 3.3, 2e-3, True),
        (np.geomspace(1.0, 1e9, 9), 1e-6, False),
    ],
    ids=["an hour", "a quarter", "within seconds", "rounded", "from 0", "kelvins", "prices"],
)
def test_numbers_far_from_0_differ_by_their_range(values: Any, moved: float, differs: bool) -> None:
    units = units_of({"y": values[4:]}, units_of({"y": values[:4]}, {}))
    one, other = {"y": values + np.where(np.arange(9) == 4, moved, 0.0)}, {"y": values}
    difference = largest_difference(one, other, units)
    assert (difference > RobustnessLimits().tolerance) is differs
    assert largest_difference(one, other, rough_units(units, other)) <= difference


@pytest.mark.parametrize(
    ("units", "made"),
    [
        (2, lambda z: np.exp(z)),
        (2, lambda z: 1234.5 * np.exp(z)),
        (2, lambda z: np.expm1(z)),
        (1, lambda z: 10**z),
        (12, lambda z: 1.19 * z),
    ],
    ids=["exp", "scaled exp", "expm1", "power of 10", "scaled"],
)
def test_a_few_units_in_the_last_place_of_float32_inside_are_no_difference(units: int, made: Any) -> None:
    numbers = (8.1 + np.arange(20) * 0.003).astype("f4")
    moved = numbers + np.spacing(numbers) * units * (np.arange(20) == 4)
    before = {"y": made(numbers.astype("f8"))}
    known = units_of({"y": before["y"][16:]}, units_of({"y": before["y"][:16]}, {}))
    assert 0 < largest_difference({"y": made(moved.astype("f8"))}, before, known) < RobustnessLimits().tolerance


@pytest.mark.parametrize("on_disk", [0, 2])
def test_memory_that_creeps_up_is_looked_at_for_longer_whatever_is_left_on_disk(on_disk: int) -> None:
    usage = UsageHistory(0)
    for call in range(160):
        usage.add(replace(OUTPUTS, resident_bytes=(200 << 20) + call * 2048), call * on_disk * 1024)
    assert usage.more_needed(lasted=1.0, most_seconds=30.0)


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_quantile_lies_in_its_interval(share: float) -> None:
    random = np.random.default_rng(5)
    truth = -np.log(1 - share)
    held = [
        low <= truth <= high
        for low, high in (quantile_interval(random.exponential(size=400), share) for _ in range(400))
    ]
    assert 0.97 <= np.mean(held) <= 1.0


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.00124, "1.24 ms"), (0.0999, "99.9 ms"), (0.5, "500 ms"), (1.5004, "1,500 ms")]
)
def test_times_are_told_in_digits(seconds: float, words: str) -> None:
    assert milliseconds(seconds) == words


def test_a_ratio_is_found_in_noise() -> None:
    random = np.random.default_rng(6)
    ratio, low, high = ratio_interval(random.lognormal(np.log(3), 0.2, 60), random.lognormal(0, 0.2, 60))
    assert low < 3 < high
    assert low <= ratio <= high
    assert low > 2.5


@pytest.mark.parametrize(
    ("likelihood", "answer", "baseline", "outcome"),
    [
        (Likelihood.EXTREME, DIED, None, Outcome.FAIL),
        (Likelihood.EVERYDAY, NAN, None, Outcome.FAIL),
        (Likelihood.RARE, NAN, None, Outcome.FAIL),
        (Likelihood.RARE, NAN, NAN, Outcome.WARN),
        (Likelihood.EXTREME, NAN, None, Outcome.WARN),
        (Likelihood.EVERYDAY, refused("ValueError", "Exception"), None, Outcome.FAIL),
        (Likelihood.EVERYDAY, refused("ValueError", "Exception"), refused("ValueError"), Outcome.WARN),
        (Likelihood.RARE, refused("ValueError", "Exception"), None, Outcome.PASS),
        (Likelihood.RARE, refused("InvalidArgument", "Exception"), None, Outcome.PASS),
        (Likelihood.EXTREME, refused("KeyError", "LookupError", "Exception"), None, Outcome.FAIL),
        (Likelihood.EXTREME, refused("RuntimeError", "Exception"), None, Outcome.FAIL),
        (Likelihood.EXTREME, refused("XlaError", "RuntimeError", "Exception"), None, Outcome.PASS),
        (
            Likelihood.EXTREME,
            refused("OverflowError", "ArithmeticError", "Exception"),
            refused("ValueError"),
            Outcome.WARN,
        ),
        (Likelihood.MALFORMED, refused("InvalidInput", "TidegateError", "Exception"), None, Outcome.PASS),
        (Likelihood.MALFORMED, OUTPUTS, None, Outcome.WARN),
        (Likelihood.EXTREME, OUTPUTS, None, Outcome.PASS),
    ],
)
def test_the_rule(likelihood: Likelihood, answer: Answer, baseline: Answer | None, outcome: Outcome) -> None:
    assert judge_answer(likelihood, answer, baseline) is outcome


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"call_seconds": 0.0}, "call_seconds is 0.0"),
        ({"slower_counts": "NO"}, "slower_counts is 'NO': use one of FAIL"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        RobustnessLimits(**limits)


def test_the_documented_defaults_are_those_of_the_limits() -> None:
    text = (Path(__file__).parents[3] / "docs" / "policy.md").read_text(encoding="utf-8")
    table = text.partition("| key of `[robustness]` |")[2].partition("\n\n")[0]
    limits = RobustnessLimits()
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()[2:]]
    assert len(rows) >= 10
    for names, told in rows:
        keys = [name.strip("` ") for name in names.split(",")]
        defaults = told.split(", ") * (len(keys) if ", " not in told else 1)
        for key, default in zip(keys, defaults, strict=True):
            value = getattr(limits, key)
            written = f"{value:g}" if isinstance(value, float) else str(value)
            assert default.lower() == written.lower(), key
