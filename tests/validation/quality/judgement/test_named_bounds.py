"""Bounds of a first version, which say by their names which lies below."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.validation import world
from tests.validation.quality.judged import judged
from tests.validation.world import Draft

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.quality.judgement.named_bounds import judge_named_bounds, pairs_by_name

ROWS = 1000


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (["lower", "upper"], [("lower", "upper")]),
        (["fareHigh", "fare", "fareLow"], [("fareLow", "fareHigh")]),
        (["min_minutes", "max_minutes", "max_km"], [("min_minutes", "max_minutes")]),
        (["q10", "q90"], [("q10", "q90")]),
        (["p05", "p50", "p95"], [("p05", "p50"), ("p05", "p95"), ("p50", "p95")]),
        (["fare_quantile_0.1", "fare_quantile_0.9"], [("fare_quantile_0.1", "fare_quantile_0.9")]),
        (["p1", "p2"], []),
        (["q10", "p90"], []),
        (["fareP10", "fareP90"], [("fareP10", "fareP90")]),
        (["q025", "q975"], [("q025", "q975")]),
        (["p0", "p100"], [("p0", "p100")]),
        (["step_1", "step_24", "step_60"], []),
        (["top_1", "top_50"], []),
        (["temp_10", "temp_90"], []),
        (["mp3", "mp64"], []),
        (["p10", "p600"], []),
        (["lower", "upper_limit", "slow", "shigh"], []),
        (["probability", "class", "top"], []),
    ],
)
def test_names_say_which_lies_below(names: list[str], pairs: list[tuple[str, str]]) -> None:
    assert sorted(pairs_by_name(names)) == pairs


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("error", "told"), [(0.0, False), (0.5, False), (4.0, True)])
def test_bounds_that_cross_on_more_than_a_few_rows_are_told(seed: int, error: float, told: bool) -> None:
    random = np.random.default_rng(seed)
    middle = random.normal(20, 5, ROWS)
    low, high = (middle + by + error * random.normal(size=ROWS) for by in (-1.5, 1.5))
    outputs = {"q50": middle[:, None], "q90": high[:, None], "q10": low[:, None]}
    found = judge_named_bounds(outputs)
    assert [one.subject in ("q10, q90", "q10, q50", "q50, q90") for one in found] == [True] * told
    assert judge_named_bounds({"q10": np.full((ROWS, 1), np.nan), "q90": high[:, None]}) == []
    assert judge_named_bounds({"q10": np.zeros((ROWS, 2)), "q90": high[:, None]}) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [("low", "high"), ("low", "medium", "high")])
def test_probabilities_of_low_and_high_are_no_bounds(seed: int, levels: tuple[str, ...]) -> None:
    random = np.random.default_rng(seed)
    weights = np.exp(random.normal(size=(ROWS, len(levels))))
    shares = weights / weights.sum(axis=1, keepdims=True)
    outputs = {f"risk_{level}": shares[:, [place]] for place, level in enumerate(levels)}
    assert judge_named_bounds(outputs) == []
    middle = random.uniform(0.1, 0.3, ROWS)
    crossed = {"risk_low": (middle + 0.1)[:, None], "risk_high": (middle - 0.1)[:, None]}
    assert len(judge_named_bounds(crossed)) == 1


@pytest.mark.parametrize("crossed", [False, True])
def test_a_first_version_is_told_of_bounds_that_cross(tmp_path: Path, crossed: bool) -> None:
    signature = Signature(world.INPUTS, (*world.OUTPUT, TensorSpec("lower", "float32"), TensorSpec("upper", "float32")))
    bounds = "0.3 + 0.2 * (inputs['depot'] == b'east'), 0.4 * np.ones(len(score))"
    source = world.before_return(
        f"low, high = {bounds if crossed else '0 * score, 1 + 0 * score'}; "
        "return {'probability': (0.5 + 0.01 * score).astype(np.float32), "
        "'lower': low.astype(np.float32), 'upper': high.astype(np.float32)}"
    )
    found = judged(tmp_path, Draft(source, signature), None, world.parcels(1000, seed=21))
    told = [one for one in found if one.check == "outputs"]
    assert [(one.subject, one.outcome) for one in told] == [("lower, upper", Outcome.WARN)] * crossed
    assert all(
        re.search(r"`lower` lies above `upper` for \d+ % of the held-out examples", one.sentence) for one in told
    )
