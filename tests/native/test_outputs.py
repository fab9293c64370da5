"""What a model may return, what is refused, and how its exceptions become statuses."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.native.running import MODEL, half_plus_two, publish, running, signature
from tidegate_native import Batch, Result

from tidegate_serving.client import Client


def returning(value: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    return lambda batch: {"y": value(batch)}


@pytest.mark.parametrize(
    "value",
    [
        lambda batch: batch.inputs["x"],
        lambda batch: batch.inputs["x"].astype(np.float64),
        lambda batch: batch.inputs["x"].astype(">f4"),
        lambda batch: batch.inputs["x"].astype(np.int64),
        lambda batch: np.repeat(batch.inputs["x"], 2)[::2],
        lambda batch: batch.inputs["x"].tolist(),
        lambda batch: [int(value) for value in batch.inputs["x"]],
    ],
    ids=["same", "wider", "other byte order", "whole numbers", "not contiguous", "list", "list of ints"],
)
def test_floats_may_come_as_any_number(value: Callable[[Batch], Any]) -> None:
    with running(publish(returning(value))) as plane:
        assert plane.predictions([1.0, -2.0, 3.0]) == [1.0, -2.0, 3.0]


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("int8", np.array([300, 1]), "output 'y' of dtype int64 with values that do not fit int8"),
        ("int64", np.array([1.5, 1.0]), "output 'y' of dtype float64, which does not become int64"),
        ("bool", np.array([1, 0]), "output 'y' of dtype int64, which does not become bool"),
        ("float32", np.array(["a", "b"]), "output 'y' of dtype <U1, which does not become float32"),
        ("float32", np.zeros(3, np.float32), "output 'y' of shape [3] for 2 rows"),
        ("float32", np.zeros((2, 1), np.float32), "output 'y' of shape [2,1], but its signature says [-1]"),
        ("float32", np.float32(1.0), "output 'y' of shape [] for 2 rows"),
        ("string", [b"a", 1], "output 'y' with an element of <class 'int'>: strings must be bytes or str"),
    ],
)
def test_an_output_that_does_not_fit_is_an_error_that_names_it(dtype: str, value: Any, text: str) -> None:
    made = signature(outputs=[("y", dtype, (-1,))])
    with running(publish(returning(lambda _: value), made=made)) as plane:
        status, error = plane.error([1.0, 2.0])
    assert status == 500
    assert text in error


def test_a_missing_output_is_named_and_extra_ones_are_ignored() -> None:
    with running(publish(lambda batch: {"z": batch.inputs["x"]})) as plane:
        assert plane.error([1.0]) == (500, "the model did not return output 'y', which its signature has")
    with running(publish(lambda batch: {"z": None, **half_plus_two(batch)})) as plane:
        assert plane.predictions([1.0]) == [2.5]
    with running(publish(lambda _: None)) as plane:  # type: ignore[arg-type, return-value]
        status, error = plane.error([1.0])
        assert (status, "not a mapping of outputs or a Result" in error) == (500, True)


@pytest.mark.parametrize(
    "value",
    [["a", b"b"], np.array(["a", "b"]), np.array([b"a", b"b"]), np.array(["a", b"b"], dtype=object)],
    ids=["list", "str array", "bytes array", "object array"],
)
def test_strings_may_come_as_lists_or_arrays(value: Any) -> None:
    with running(publish(returning(lambda _: value), made=signature(outputs=[("y", "string", (-1,))]))) as plane:
        assert plane.predictions([1.0, 2.0]) == ["a", "b"]


def test_small_types_come_back_as_they_are() -> None:
    made = signature(outputs=[("h", "float16", (-1,)), ("b", "bool", (-1,)), ("u", "uint64", (-1, 2))])
    outputs = {
        "h": np.array([0.5], np.float16),
        "b": np.array([True]),
        "u": np.array([[1, 2**64 - 1]], np.uint64),
    }
    with running(publish(lambda _: outputs, made=made)) as plane, Client(plane.grpc) as client:
        answer = client.predict(MODEL, {"x": np.array([1.0], np.float32)})
    for name, value in outputs.items():
        assert answer.outputs[name].dtype == value.dtype
        assert answer.outputs[name].tolist() == value.tolist()


def test_a_result_fails_the_requests_whose_rows_have_errors() -> None:
    def some_fail(batch: Batch) -> Result:
        bad = {int(row): (9, f"row {row} is negative") for row in np.flatnonzero(batch.inputs["x"] < 0)}
        return Result(half_plus_two(batch), bad)

    with running(publish(some_fail, timeout_us=60_000_000, max_batch_rows=4)) as plane:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            good, bad = pool.map(plane.predict, ([1.0, 2.0], [3.0, -4.0]))
        assert good.json() == {"predictions": [2.5, 3.0]}
        assert bad.status == 400
        assert bad.json()["error"].endswith("is negative")
        assert plane.model_sample("tidegate_batches_total") == 1


class OutOfStock(Exception):
    """Carries the status that the client is to see."""

    grpc_code = 5


def test_an_exception_becomes_its_status() -> None:
    def raises(batch: Batch) -> dict[str, Any]:
        raise OutOfStock("no such article") if batch.inputs["x"][0] == 1 else KeyError("colour")

    with running(publish(raises)) as plane:
        assert plane.error([1.0]) == (404, "no such article")
        assert plane.error([2.0]) == (500, "KeyError: 'colour'")


def test_one_bad_request_fails_alone_and_python_is_entered_once_per_batch() -> None:
    entries: list[int] = []

    def touchy(batch: Batch) -> dict[str, Any]:
        entries.append(batch.rows)
        if (batch.inputs["x"] == 13).any():
            raise ValueError("thirteen")
        return half_plus_two(batch)

    with running(publish(touchy, timeout_us=60_000_000, max_batch_rows=16)) as plane:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(plane.predict, [[float(value)] for value in range(16)]))
        assert [reply.status for reply in replies] == [500 if value == 13 else 200 for value in range(16)]
        right = [reply.json()["predictions"] for value, reply in enumerate(replies) if value != 13]
        assert right == [[value * 0.5 + 2.0] for value in range(16) if value != 13]
        assert entries[0] == 16
        assert plane.model_sample("tidegate_python_entries_total") == len(entries)
        assert plane.model_sample("tidegate_batches_total") == len(entries)
