"""Shadowed answers beside primary ones: pairs by request and row, differences, disagreements, failures."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.log_blocks import ARRIVED, FakeBlock, microseconds, write_log

from tidegate_operators.steps.log_upkeep import compact_log
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.inference_log.compare import compare
from tidegate_serving.inference_log.comparison import Comparison

SINCE = ARRIVED - timedelta(minutes=1)


def logged(root: Path, version: int, y: Any, **changes: Any) -> None:
    names = changes.pop("name", ["a"] * len(y))
    outputs = {
        "y": np.array(y, "f8"),
        "name": np.array([text.encode() for text in names], dtype=object),
        "many": np.zeros((len(y), 2)),
    }
    write_log(root, FakeBlock({"x": np.zeros(len(y))}, outputs, version=version, **changes))


def test_pairs_are_found_and_measured(tmp_path: Path) -> None:
    ids = ["a", "b", "c", "d"]
    logged(tmp_path, 1, [1, 2, 3, 4], request_id=ids, latency_us=[10, 20, 30, 40])
    shadow = [1.5, 2.0, 2.0, 9.0]
    logged(tmp_path, 2, shadow[::-1], request_id=ids[::-1], role=[1] * 4, latency_us=[5] * 4, name=["a", "b", "a", "a"])
    found = compare(tmp_path, "m", 1, 2, since=SINCE)
    assert (found.shadowed, found.compared, found.failed) == (4, 4, 0)
    assert found.max_difference == 5.0
    y, name = found.outputs["y"], found.outputs["name"]
    assert y.mean_difference == pytest.approx(6.5 / 4)
    assert y.correlation == pytest.approx(np.corrcoef([1, 2, 3, 4], shadow)[0, 1])
    assert (y.agreement, name.agreement, name.disagreements) == (0.25, 0.75, 1)
    assert math.isnan(name.max_difference)
    assert (found.primary.p50_us, found.shadow.p50_us) == (25.0, 5.0)
    assert found.primary.p99_us == pytest.approx(39.7)


def test_only_the_named_outputs_count(tmp_path: Path) -> None:
    logged(tmp_path, 1, [1.0])
    logged(tmp_path, 2, [9.0], role=[1])
    assert compare(tmp_path, "m", 1, 2, outputs=["name"], since=SINCE).max_difference == 0.0
    with pytest.raises(InvalidInput, match=r"'out\.z' is not in the log of both versions"):
        compare(tmp_path, "m", 1, 2, outputs=["z"], since=SINCE)


def explained(root: Path, **outputs: Any) -> None:
    """Two rows of a second signature and two of the first, of both versions; the second version's last `y` differs."""
    for version in (1, 2):
        told: dict[str, Any] = {"version": version, "role": [version - 1] * 2}
        write_log(root, FakeBlock({"x": np.zeros(2)}, outputs, request_id=["c", "d"], signature="explain", **told))
        logged(root, version, [0, version], request_id=["a", "b"], role=[version - 1] * 2)


def test_outputs_of_two_signatures_are_compared_apart(tmp_path: Path) -> None:
    explained(tmp_path, y=np.array([b"one", b"two"], object), z=np.zeros(2))
    found = compare(tmp_path, "m", 1, 2, since=SINCE)
    assert (found.compared, found.max_difference) == (4, 1.0)
    assert sorted(found.outputs) == ["explain/y", "many", "name", "serving_default/y", "z"]
    number = found.outputs["serving_default/y"]
    assert (number.real, number.elements, number.agreement) == (True, 2, 0.5)
    assert list(compare(tmp_path, "m", 1, 2, outputs=["z"], since=SINCE).outputs) == ["z"]


def test_rows_of_another_signature_in_the_same_file_are_no_agreement(tmp_path: Path) -> None:
    explained(tmp_path, z=np.zeros(2))
    compact_log(tmp_path, least_files=2, settled=0.0, grace=0.0)
    found = compare(tmp_path, "m", 1, 2, since=SINCE).outputs
    assert {name: (one.elements, one.agreement) for name, one in found.items()} == {
        "y": (2, 0.5),
        "name": (2, 1.0),
        "many": (4, 1.0),
        "z": (2, 1.0),
    }


def test_failures_and_lone_copies_are_not_compared(tmp_path: Path) -> None:
    logged(
        tmp_path,
        1,
        [1, 2, 3],
        request_id=["ok", "shadow-fails", "primary-fails"],
        status=[0, 0, 13],
        latency_us=[7, 9, 9],
    )
    ids = ["ok", "shadow-fails", "primary-fails", "alone"]
    logged(tmp_path, 2, [1, 9, 9, 9], request_id=ids, role=[1] * 4, status=[0, 13, 0, 0])
    found = compare(tmp_path, "m", 1, 2, since=SINCE)
    assert (found.shadowed, found.compared, found.failed, found.max_difference) == (4, 1, 1, 0.0)
    assert (found.primary.p50_us, found.primary.p99_us) == (7.0, 7.0)
    assert (found.primary.errors, found.shadow.errors) == ({"model_failed": 1}, {"model_failed": 1})


@pytest.mark.parametrize(
    ("primary", "shadow", "difference"),
    [
        (math.nan, math.nan, 0.0),
        (math.nan, 1.0, math.inf),
        (1.0, math.nan, math.inf),
        (math.inf, math.inf, 0.0),
        (math.inf, -math.inf, math.inf),
        (math.inf, 1.0, math.inf),
    ],
)
def test_strange_numbers(tmp_path: Path, primary: float, shadow: float, difference: float) -> None:
    logged(tmp_path, 1, [primary])
    logged(tmp_path, 2, [shadow], role=[1])
    assert compare(tmp_path, "m", 1, 2, since=SINCE).max_difference == difference


def test_what_came_before_does_not_count(tmp_path: Path) -> None:
    logged(tmp_path, 1, [1.0])
    logged(tmp_path, 2, [2.0], role=[1])
    assert compare(tmp_path, "m", 1, 2, since=ARRIVED + timedelta(seconds=1)).shadowed == 0


def test_primary_answers_of_the_canary_itself_are_no_copies(tmp_path: Path) -> None:
    logged(tmp_path, 1, [1.0])
    logged(tmp_path, 2, [2.0], role=[0])
    assert compare(tmp_path, "m", 1, 2, since=SINCE).shadowed == 0


def at(seconds: Any) -> Any:
    """Times of arrival so long after the first."""
    return microseconds(ARRIVED) + (np.asarray(seconds, "f8") * 1e6).astype("i8")


def test_a_request_id_that_comes_again_and_again_pairs_each_copy_with_its_own_primary(tmp_path: Path) -> None:
    y, came = np.arange(200.0), at(np.arange(200) * 0.01)
    logged(tmp_path, 1, y, request_id=["same"] * 200, arrived_us=came)
    kept = np.delete(np.arange(200), [0, 7, 50])  # A full queue drops copies.
    shifted = came[kept] + np.where(kept % 2, 3, -3)  # The clocks are read anew for each batch of records.
    logged(tmp_path, 2, y[kept], request_id=["same"] * 197, role=[1] * 197, arrived_us=shifted)
    found = compare(tmp_path, "m", 1, 2, since=SINCE)
    assert (found.shadowed, found.compared, found.max_difference) == (197, 197, 0.0)


def test_a_copy_whose_primary_is_not_logged_is_not_paired_with_another_of_its_id(tmp_path: Path) -> None:
    logged(tmp_path, 1, [1.0, 3.0], request_id=["same"] * 2, arrived_us=at([0.0, 5.0]))
    logged(tmp_path, 2, [1.0, 2.0, 9.0], request_id=["same"] * 3, role=[1] * 3, arrived_us=at([0.0, 0.3, 9.0]))
    found = compare(tmp_path, "m", 1, 2, since=SINCE)
    assert (found.shadowed, found.compared, found.max_difference) == (3, 1, 0.0)


def test_answers_of_two_engines_to_one_id_are_not_mixed(tmp_path: Path) -> None:
    for engine, y in (("east", 1.0), ("west", 2.0)):
        logged(tmp_path / engine, 1, [y])
        logged(tmp_path / engine, 2, [y], role=[1])
    found = compare(tmp_path, "m", 1, 2, since=SINCE)
    assert (found.compared, found.max_difference) == (2, 0.0)


@pytest.mark.parametrize("before", [np.arange(2), np.arange(2.0)])
def test_a_number_and_a_text_are_compared_as_text(tmp_path: Path, before: Any) -> None:
    write_log(tmp_path, FakeBlock({"x": np.zeros(2)}, {"label": before}))
    texts = np.array([str(before[0]).encode(), b"cat"], object)
    write_log(tmp_path, FakeBlock({"x": np.zeros(2)}, {"label": texts}, version=2, role=[1, 1]))
    found = compare(tmp_path, "m", 1, 2, since=SINCE).outputs["label"]
    assert (found.real, found.elements, found.disagreements) == (False, 2, 1)


def test_nothing_logged_is_nothing_compared(tmp_path: Path) -> None:
    assert compare(tmp_path, "m", 1, 2, since=SINCE) == Comparison()
    logged(tmp_path, 1, [1.0])
    assert compare(tmp_path, "m", 1, 2, since=SINCE).compared == 0


def test_outputs_of_several_elements_are_compared_element_by_element(tmp_path: Path) -> None:
    many = np.arange(8, dtype="f4").reshape(2, 2, 2)
    write_log(tmp_path, FakeBlock({"x": np.zeros(2)}, {"many": many}))
    moved = many.copy()
    moved[1, 0, 1] += 0.5
    write_log(tmp_path, FakeBlock({"x": np.zeros(2)}, {"many": moved}, version=2, role=[1, 1]))
    found = compare(tmp_path, "m", 1, 2, since=SINCE)
    assert found.max_difference == 0.5
    many_found = found.outputs["many"]
    assert many_found.elements == 8
    assert many_found.mean_difference == pytest.approx(0.5 / 8)


def test_scores_agree_where_their_largest_stands_at_the_same_place(tmp_path: Path) -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]])
    write_log(tmp_path, FakeBlock({"x": np.zeros(4)}, {"s": scores, "label": np.array([1, 0, 1, 0])}))
    moved = scores + np.array([[0.01, -0.01]])
    moved[3] = [0.2, 0.8]
    outputs = {"s": moved, "label": np.array([1, 0, 1, 1])}
    write_log(tmp_path, FakeBlock({"x": np.zeros(4)}, outputs, version=2, role=[1] * 4))
    found = compare(tmp_path, "m", 1, 2, since=SINCE).outputs
    assert found["s"].top_agreement == 0.75
    assert (found["label"].agreement, found["label"].max_difference) == (0.75, 1.0)
    assert math.isnan(found["label"].top_agreement)


def test_constant_answers_have_no_correlation(tmp_path: Path) -> None:
    logged(tmp_path, 1, [1.0, 1.0])
    logged(tmp_path, 2, [1.0, 2.0], role=[1, 1])
    assert math.isnan(compare(tmp_path, "m", 1, 2, since=SINCE).outputs["y"].correlation)


def test_huge_and_infinite_answers_leave_the_correlation_of_the_others(tmp_path: Path) -> None:
    logged(tmp_path, 1, [1.0, 2.0, 3.0, 1e300, math.inf, math.nan])
    logged(tmp_path, 2, [2.0, 4.0, 6.0, 1e300, 1.0, 1.0], role=[1] * 6)
    assert compare(tmp_path, "m", 1, 2, since=SINCE).outputs["y"].correlation == pytest.approx(1.0)


def test_another_number_of_elements_differs_infinitely(tmp_path: Path) -> None:
    write_log(tmp_path, FakeBlock({"x": np.zeros(1)}, {"many": np.zeros((1, 2))}))
    write_log(tmp_path, FakeBlock({"x": np.zeros(1)}, {"many": np.zeros((1, 3))}, version=2, role=[1]))
    found = compare(tmp_path, "m", 1, 2, since=SINCE)
    assert (found.max_difference, found.outputs["many"].disagreements) == (math.inf, 1)
