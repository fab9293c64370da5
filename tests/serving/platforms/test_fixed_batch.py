"""Which shapes show a fixed batch, and that pieces come back as one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tidegate_serving.platforms.fixed_batch import fixed_batch, in_pieces


@pytest.mark.parametrize(
    ("inputs", "outputs", "size"),
    [
        ([[4, 3], [4]], [[4], [4, 2]], 4),
        ([[1, 3]], [["batch", 2]], 1),
        ([[-1, 3]], [[-1]], None),
        ([[None, 3]], [[4]], None),
        ([[4, 3]], [[3]], None),
        ([[4, 3]], [[]], None),
        ([[4, 3], [2]], [[4]], None),
        ([[4, 3], []], [[4]], None),
    ],
)
def test_a_batch_is_fixed_where_all_first_axes_agree(inputs: Any, outputs: Any, size: int | None) -> None:
    assert fixed_batch(inputs, outputs) == size


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 7])
def test_pieces_are_full_and_their_answers_whole(rows: int) -> None:
    asked: list[int] = []

    def run(piece: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(len(piece["x"]))
        return {"y": piece["x"] * 2, "word": piece["word"]}

    words = np.array([b"w%d" % row for row in range(rows)], dtype=object)
    answer = in_pieces(run, {"x": np.arange(rows), "word": words}, 3)
    assert set(asked) == {3}
    assert answer["y"].tolist() == [2 * row for row in range(rows)]
    assert answer["word"].tolist() == words.tolist()
