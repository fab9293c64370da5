"""How far blocks of training went beyond all before them."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.reaches import reaches_of, share_of, stretches
from tidegate_validation.statistics.sample import ValueSample


def sample_of(values: Floats, blocks: Integers) -> ValueSample:
    order = np.argsort(values, kind="stable")
    return ValueSample(values[order], blocks[order], np.ones(len(values), dtype=np.int64))


def beyond(values: Floats, blocks: Integers, length: int, sign: float) -> float:
    """The share of rows above all blocks before their stretch, by a look at each stretch."""
    last, days = int(blocks.max()) + 1, len(np.unique(blocks))
    new = seen = 0
    for number in range(max(days // 2 // length, 1)):
        start = last - length * (number + 1)
        inside, before = (blocks >= start) & (blocks < start + length), blocks < start
        new += int((sign * values[inside] > (sign * values[before]).max()).sum())
        seen += int(inside.sum())
    return new / seen


@pytest.mark.parametrize("drift", [0.0, 0.3, -0.3])
def test_reaches_are_what_a_look_at_each_stretch_finds(drift: float) -> None:
    random = np.random.default_rng(3)
    blocks = np.repeat(np.arange(100, 140), 25)
    values = np.round(random.normal(0, 1, len(blocks)) + drift * (blocks - 100), 1).astype(np.float64)

    found = reaches_of(sample_of(values, blocks))

    lengths = stretches(40)
    assert lengths == [1, 2, 4, 8]
    assert found[0] == pytest.approx([beyond(values, blocks, one, -1.0) for one in lengths])
    assert found[1] == pytest.approx([beyond(values, blocks, one, 1.0) for one in lengths])


def test_what_no_stretch_knows_grows_in_proportion() -> None:
    assert share_of((0.02, 0.03, 0.05), 3) == pytest.approx(0.045)
    assert share_of((0.02, 0.03, 0.05), 40) == pytest.approx(0.5)
    assert share_of((0.02, 0.03, 0.05), 400) == 1.0
    assert share_of((), 4) == 0.0


def test_a_column_without_values_or_of_one_block_reaches_nowhere() -> None:
    nothing, one = np.empty(0), np.array([1.0, 2.0, 3.0])

    assert reaches_of(sample_of(nothing, np.empty(0, dtype=np.int64))) == ((), ())
    assert reaches_of(sample_of(one, np.zeros(3, dtype=np.int64))) == ((1.0,), (1.0,))
