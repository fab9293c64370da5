"""What a canary in traffic reads from log files: neighbours in time, each used once, and labels that came."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_blocks import ARRIVED, FakeBlock, microseconds, write_log

from tidegate_operators.steps import away, canary_pairs
from tidegate_operators.steps.canary_pairs import Seen, StepBegun, read_pairs
from tidegate_serving.contract.errors import InvalidInput, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryMode, CanaryRule

RULE = CanaryRule(mode=CanaryMode.TRAFFIC, shares=(0.5, 1.0), slowdown_grace_us=0.0)
SINCE = ARRIVED - timedelta(minutes=1)


def write(root: Path, version: int, seconds: Sequence[float], **given: Any) -> None:
    rows = np.zeros(len(seconds))
    outputs = given.pop("outputs", {"y": np.zeros(len(seconds), "f4")})
    first = given.pop("first", 0)
    ids = given.pop("ids", [f"v{version}-{first + place}" for place in range(len(seconds))])
    came = np.array([microseconds(ARRIVED) + round(second * 1e6) for second in seconds], "i8")
    write_log(root, FakeBlock({"x": rows}, outputs, version=version, request_id=ids, arrived_us=came, **given))


def read(root: Path, rule: CanaryRule = RULE, step: float = 0.0, number: int = 0) -> Seen:
    begun = StepBegun(number, ARRIVED + timedelta(seconds=step))
    return read_pairs(root, ServableId("m", 2), 1, SINCE, begun, rule)


def test_each_answer_is_compared_with_the_last_one_before_it_and_none_is_used_twice(tmp_path: Path) -> None:
    write(tmp_path, 1, [1, 2, 3, 9], latency_us=[100, 100, 100, 100], status=[0, 0, 13, 0])
    write(tmp_path, 2, [0.5, 2.5, 2.6, 3.5], latency_us=[500, 121, 500, 119], status=[0, 13, 0, 0])
    found = read(tmp_path)
    assert (found.beside.answered, found.beside.compared) == (4, 2), "nothing came before 0.5, and 2.6 has none left"
    assert (found.beside.errors, found.beside.primary_faults, found.beside.slow) == (1, 1, 1)
    assert found.alone is None


def test_requests_under_one_id_are_as_many_pairs(tmp_path: Path) -> None:
    write(tmp_path, 1, [1, 2, 3, 4], ids=["same"] * 4)
    write(tmp_path, 2, [1.5, 2.5, 3.5], ids=["same"] * 3, status=[0, 13, 13])
    found = read(tmp_path).beside
    assert (found.answered, found.compared, found.errors) == (3, 3, 2)


def test_a_nan_is_found_and_labels_count_where_another_signature_calls_a_text_by_the_same_name(tmp_path: Path) -> None:
    label(tmp_path / "labels.parquet", {"v1-0": 1, "v1-1": 1, "v2-0": 1, "v2-1": 1})
    for version, seconds in ((1, [5, 6]), (2, [5.5])):
        texts = np.array([b"a"] * len(seconds), object)
        write(tmp_path / "log", version, seconds, first=9, outputs={"z": texts, "y": texts}, signature="words")
    write(tmp_path / "log", 1, [1, 2, 3], outputs={"y": np.array([0.9, 0.9, 0.9], "f4")})
    write(tmp_path / "log", 2, [1.5, 2.5], outputs={"y": np.array([np.nan, 0.1], "f4")})
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"), quality_output="y")
    found = read(tmp_path / "log", rule).beside
    assert (found.compared, found.not_finite) == (3, 1)


def test_what_the_serving_versions_log_does_not_reach_yet_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, 1, [1, 2])
    write(tmp_path, 2, [1.5, 3.0, 4.0])
    assert read(tmp_path).beside.compared == 1
    write(tmp_path, 1, [2.5, 3.5, 4.5], first=2)
    assert read(tmp_path).beside.compared == 3


def test_answers_of_a_step_are_those_since_it_began_and_copies_are_none(tmp_path: Path) -> None:
    write(tmp_path, 1, [1, 2, 3, 4])
    write(tmp_path, 2, [1.5, 2.5, 3.5, 3.6], role=[0, 0, 0, 1], outputs={"y": np.array([1, np.nan, 1, 1], "f4")})
    found = read(tmp_path, step=2.0)
    assert (found.in_step, found.beside.answered, found.beside.not_finite) == (2, 3, 1)


def test_at_the_whole_traffic_it_is_compared_with_what_was_answered_before(tmp_path: Path) -> None:
    write(tmp_path, 1, [1, 2, 3, 4])
    write(tmp_path, 2, [2.5, 10, 11, 12], status=[0, 13, 13, 13])
    found = read(tmp_path, step=9.0, number=1)
    assert (found.beside.compared, found.beside.errors) == (1, 0)
    assert found.alone is not None
    assert (found.alone.compared, found.alone.errors, found.in_step) == (3, 3, 3)


def label(path: Path, labels: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"request_id": list(labels), "label": list(labels.values())}), path)


@pytest.mark.parametrize("place", ["labels.parquet", "labels/one.parquet"])
def test_labels_count_from_when_they_come(tmp_path: Path, place: str) -> None:
    named = tmp_path / place.partition("/")[0]
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(named))
    write(tmp_path / "log", 1, [1, 2, 3, 4], outputs={"y": np.array([0.9, 0.2, 0.9, 0.9], "f4")})
    write(tmp_path / "log", 2, [1.5, 2.5, 3.5], outputs={"y": np.array([0.1, 0.9, 0.9], "f4")})
    assert read(tmp_path / "log", rule).beside.labelled == 0
    label(tmp_path / place, {"v1-0": 1, "v1-1": 1, "v2-0": 1, "v2-1": 1, "v1-2": 1})
    found = read(tmp_path / "log", rule).beside
    assert (found.labelled, found.wrong, found.primary_wrong) == (2, 1, 1)


def test_of_several_labels_for_a_request_the_newest_counts(tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    folder.mkdir()
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(folder))
    write(tmp_path / "log", 1, [1, 2], outputs={"y": np.array([0.9, 0.9], "f4")})
    write(tmp_path / "log", 2, [1.5], outputs={"y": np.array([0.9], "f4")})

    def come(name: str, values: list[int | None], at: list[int] | None = None) -> int:
        told = {"request_id": ["v2-0"] * len(values), "label": values} | ({"at": at} if at else {})
        pq.write_table(pa.table(told), folder / f"{name}.parquet")
        return read(tmp_path / "log", rule).beside.wrong

    label(folder / "0-serving.parquet", {"v1-0": 1, "v1-1": 1})
    assert come("1-first", [1, 0]) == 1, "the last row, where nothing says when"
    assert come("2-second", [1, None]) == 0, "the last file that has one"
    assert come("3-timed", [1, 0, 1], [5, 9, 7]) == 1, "the newest, wherever it stands"
    assert come("4-late", [1], [8]) == 1, "an older one that comes later changes nothing"


def test_an_output_that_is_not_there_is_named(tmp_path: Path) -> None:
    label(tmp_path / "labels.parquet", {"v1-0": 1})
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"), quality_output="score")
    for version in (1, 2):
        write(tmp_path / "log", version, [1])
    with pytest.raises(InvalidInput, match=r"quality_output is 'score': name the output .* one of y"):
        read(tmp_path / "log", rule)


def test_of_two_probabilities_a_row_the_second_is_that_of_a_yes(tmp_path: Path) -> None:
    label(tmp_path / "labels.parquet", {"v1-0": 1, "v1-1": 1, "v2-0": 1})
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    write(tmp_path / "log", 1, [1, 2], outputs={"y": np.array([[0.9, 0.1], [0.9, 0.1]], "f4")})
    write(tmp_path / "log", 2, [1.5], outputs={"y": np.array([[0.1, 0.9]], "f4")})
    found = read(tmp_path / "log", rule).beside
    assert (found.labelled, found.wrong, found.primary_wrong) == (1, 0, 1)


@pytest.mark.parametrize(
    ("answered", "yes"),
    [
        (([[0.9, 0.1]] * 2, [[0.9, 0.1]]), 1),
        (([[0.9, 0.1]] * 2, [[0.9, 0.1]]), "yes"),
        (([0, 0], [0]), "yes"),
    ],
)
def test_each_version_has_the_order_of_classes_that_its_manifest_names(
    tmp_path: Path, answered: tuple[Any, Any], yes: Any
) -> None:
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    label(tmp_path / "labels.parquet", {"v1-0": yes, "v1-1": yes, "v2-0": yes})
    kind = "i8" if np.ndim(answered[0]) == 1 else "f4"
    for version, outputs, seconds in ((1, answered[0], [1, 2]), (2, answered[1], [1.5])):
        write(tmp_path / "log", version, seconds, outputs={"y": np.array(outputs, kind)})
    order = ("0", "1") if yes == 1 else ("no", "yes")

    def wrong(first: Sequence[str], second: Sequence[str]) -> tuple[int, int, int]:
        classes = {1: first, 2: second}
        begun = StepBegun(0, ARRIVED)
        found = read_pairs(tmp_path / "log", ServableId("m", 2), 1, SINCE, begun, rule, classes.__getitem__).beside
        return found.labelled, found.wrong, found.primary_wrong

    assert wrong(order[::-1], order) == (1, 1, 0), "a worse candidate"
    assert wrong(order, order[::-1]) == (1, 0, 1), "a better one"
    assert wrong(order[::-1], order[::-1]) == (1, 0, 0)


@pytest.mark.parametrize("label_of_yes", [2, 1])
def test_labels_that_are_no_class_of_two_columns_are_named(tmp_path: Path, label_of_yes: int) -> None:
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    label(tmp_path / "labels.parquet", {"v1-0": label_of_yes})
    for version in (1, 2):
        write(tmp_path / "log", version, [1], outputs={"y": np.array([[0.1, 0.9]], "f4")})
    begun, classes = StepBegun(0, ARRIVED), {1: ("no", "yes"), 2: ("no", "yes") if label_of_yes == 2 else ("yes", "no")}
    with pytest.raises(
        InvalidInput, match=rf"label '{label_of_yes}' of .* is no class of output 'y', whose columns are no, yes"
    ):
        read_pairs(tmp_path / "log", ServableId("m", 2), 1, SINCE, begun, rule, classes.__getitem__)


@pytest.mark.parametrize(("order", "labels"), [(("yes", "no"), (0, 1)), (("False", "True"), (False, True))])
def test_labels_may_count_the_two_columns_of_versions_that_name_them_alike(
    tmp_path: Path, order: Sequence[str], labels: tuple[Any, Any]
) -> None:
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    label(tmp_path / "labels.parquet", {"v1-0": labels[1], "v1-1": labels[0], "v2-0": labels[1]})
    write(tmp_path / "log", 1, [1, 2], outputs={"y": np.array([[0.9, 0.1]] * 2, "f4")})
    write(tmp_path / "log", 2, [1.5], outputs={"y": np.array([[0.1, 0.9]], "f4")})
    begun = StepBegun(0, ARRIVED)
    found = read_pairs(tmp_path / "log", ServableId("m", 2), 1, SINCE, begun, rule, lambda version: order).beside
    assert (found.labelled, found.wrong, found.primary_wrong) == (1, 0, 1)


@pytest.mark.parametrize(("serving", "answer"), [((), 1), (("cat", "dog", "eel"), 2)])
def test_labels_that_count_classes_need_not_have_come_for_each_of_them(
    tmp_path: Path, serving: Sequence[str], answer: int
) -> None:
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    label(tmp_path / "labels.parquet", {"v1-0": 0, "v2-0": 1})
    write(tmp_path / "log", 1, [1, 2], outputs={"y": np.array([0, 2], "i8")})
    write(tmp_path / "log", 2, [1.5, 2.5], outputs={"y": np.array([answer, 2], "i8")})
    classes, begun = {1: serving, 2: ("cat", "dog", "eel")}, StepBegun(0, ARRIVED)
    found = read_pairs(tmp_path / "log", ServableId("m", 2), 1, SINCE, begun, rule, classes.__getitem__).beside
    assert (found.labelled, found.wrong, found.primary_wrong) == (1, int(answer != 1), 0)


@pytest.mark.parametrize(
    ("answers", "labels", "told"),
    [
        (np.array([0, 1, 2], "i8"), ["cat", "dog", "eel"], r"'(cat|dog|eel)' of .* with answer '[0-2]' of output 'y'"),
        (np.array([b"cat", b"dog", b"eel"], object), [0, 1, 2], r"'[0-2]' of .* with answer '(cat|dog|eel)' of"),
    ],
)
def test_answers_that_no_label_could_be_do_not_all_count_as_wrong(
    tmp_path: Path, answers: Any, labels: list[Any], told: str
) -> None:
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    label(tmp_path / "labels.parquet", {"v1-0": labels[0], "v1-1": labels[1], "v2-0": labels[2]})
    write(tmp_path / "log", 1, [1, 2], outputs={"y": answers[:2]})
    write(tmp_path / "log", 2, [1.5], outputs={"y": answers[:1]})
    with pytest.raises(InvalidInput, match=told):
        read(tmp_path / "log", rule)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (np.array([b"0", b"1", b"3+"], object), "3+"),
        (np.array([b"nan", b"inf", b"dog"], object), "cat"),
        (np.array([b"0", b"0", b"0"], object), "3+"),
        (np.array([-1, 0, 1], "i8"), "cat"),
        (np.array([-1, -1, -1], "i8"), "cat"),
    ],
)
def test_names_that_are_numbers_beside_others_that_are_none_end_no_canary(
    tmp_path: Path, answers: Any, told: str
) -> None:
    rule, begun = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet")), StepBegun(0, ARRIVED)
    label(tmp_path / "labels.parquet", {"v1-0": told, "v1-1": told, "v2-0": told})
    write(tmp_path / "log", 1, [1, 2, 3], outputs={"y": answers})
    write(tmp_path / "log", 2, [1.5, 2.5, 3.5], outputs={"y": answers})
    classes = {1: ("cat", "dog"), 2: ("cat", "dog")}
    found = read_pairs(tmp_path / "log", ServableId("m", 2), 1, SINCE, begun, rule, classes.__getitem__).beside
    assert found.labelled == 1


def test_texts_that_are_numbers_beside_names_end_a_canary_once_ten_have_labels(tmp_path: Path) -> None:
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    for version in (1, 2):
        write(tmp_path / "log", version, range(version, version + 10), outputs={"y": np.array([b"1"] * 10, object)})
    label(tmp_path / "labels.parquet", {f"v{version}-{place}": "cat" for version in (1, 2) for place in range(9)})
    assert read(tmp_path / "log", rule).beside.labelled > 0
    label(tmp_path / "labels.parquet", {f"v1-{place}": "cat" for place in range(10)})
    with pytest.raises(InvalidInput, match=r"label 'cat' of .* with answer '1' of output 'y'"):
        read(tmp_path / "log", rule)


def test_a_whole_number_is_the_label_of_a_real_one_and_of_a_truth_value(tmp_path: Path) -> None:
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    label(tmp_path / "labels.parquet", {"v1-0": 1.0, "v1-1": 1.0, "v2-0": 1.0})
    write(tmp_path / "log", 1, [1, 2], outputs={"y": np.array([True, True])})
    write(tmp_path / "log", 2, [1.5], outputs={"y": np.array([0], "i8")})
    found = read(tmp_path / "log", rule).beside
    assert (found.labelled, found.wrong, found.primary_wrong) == (1, 1, 0)


@pytest.mark.parametrize("outputs", [np.zeros((1, 3), "f4"), np.zeros((1, 2), "i8")])
def test_an_output_of_more_values_a_row_is_no_answer_for_labels(tmp_path: Path, outputs: Any) -> None:
    label(tmp_path / "labels.parquet", {"v1-0": 1})
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    for version in (1, 2):
        write(tmp_path / "log", version, [1], outputs={"y": outputs})
    with pytest.raises(InvalidInput, match=r"output 'y' has [23] values a row"):
        read(tmp_path / "log", rule)


def test_labels_that_name_rows_count_for_these(tmp_path: Path) -> None:
    told = {"request_id": ["v1-0", "v2-0", "v2-0", "v1-1"], "row": [0, 0, 1, 0], "label": [1, 0, 1, 1]}
    pq.write_table(pa.table(told), tmp_path / "labels.parquet")
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(tmp_path / "labels.parquet"))
    write(tmp_path / "log", 1, [1, 2], outputs={"y": np.array([0.9, 0.9], "f4")})
    write(tmp_path / "log", 2, [1.5], outputs={"y": np.array([0.1], "f4")})
    found = read(tmp_path / "log", rule).beside
    assert (found.labelled, found.wrong) == (1, 0)


def test_a_label_without_a_row_is_that_of_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    label(folder / "old.parquet", {"v1-0": 1, "v1-1": 1, "v2-0": 1})
    told = {"request_id": ["v2-1", "v2-1"], "row": [None, 1], "label": [0, 1]}
    pq.write_table(pa.table(told), folder / "newer.parquet")
    rule = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(folder))
    write(tmp_path / "log", 1, [1, 2, 3], outputs={"y": np.array([0.9, 0.9, 0.9], "f4")})
    write(tmp_path / "log", 2, [1.5, 2.5], outputs={"y": np.array([0.1, 0.1], "f4")})
    found = read(tmp_path / "log", rule).beside
    assert (found.labelled, found.wrong, found.primary_wrong) == (2, 1, 0)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"id": ["v2-0"], "label": [1]},
            r"the labels .*labels.parquet have no column 'request_id': they have id, label",
        ),
        ({"request_id": ["v2-0"], "y": [1]}, r"the labels .*labels.parquet have no column 'label'"),
        ({"request_id": ["v2-0"], "label": ["late"]}, r"label 'late' of .*labels.parquet is no number"),
    ],
)
def test_labels_that_cannot_be_used_are_named(tmp_path: Path, columns: dict[str, Any], told: str) -> None:
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table(columns), path)
    write(tmp_path / "log", 1, [1, 2])
    write(tmp_path / "log", 2, [1.5])
    with pytest.raises(InvalidInput, match=told):
        read(tmp_path / "log", CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(path)))


def test_a_file_of_labels_that_is_half_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.parquet"
    path.write_bytes(b"PAR1 half")
    write(tmp_path / "log", 1, [1, 2])
    write(tmp_path / "log", 2, [1.5])
    rule, labels = CanaryRule(mode=CanaryMode.TRAFFIC, labels=str(path)), {"v1-0": 1, "v1-1": 1, "v2-0": 1}
    with monkeypatch.context() as patch:
        patch.setattr(canary_pairs, "outlast", partial(away.outlast, pause=lambda seconds: label(path, labels)))
        assert read(tmp_path / "log", rule).beside.labelled == 1
    path.write_bytes(b"PAR1 for ever")
    monkeypatch.setattr(away, "_AWAY_SECONDS", 0.0)
    with pytest.raises(Unavailable, match=r"the labels .*labels.parquet cannot be read"):
        read(tmp_path / "log", rule)


def test_nothing_logged_yet_is_zero(tmp_path: Path) -> None:
    assert read(tmp_path) == Seen(CanaryNumbers(), 0)
