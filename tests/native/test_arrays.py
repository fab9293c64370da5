"""Inputs as the model gets them: memory shared without a copy, writable, kept for as long as somebody looks at it."""

from __future__ import annotations

import concurrent.futures
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.native.running import (
    MODEL,
    OUTPUT,
    Running,
    half_plus_two,
    log_all,
    publish,
    raw_predict,
    running,
    signature,
)
from tidegate_native import Batch

from tidegate_serving.client import Client

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/tensor_layout.json").read_text())


def string_layout(array: np.ndarray[Any, Any]) -> tuple[str, str]:
    """Offsets and bytes of an object array of bytes, as hexadecimal digits."""
    values = array.ravel().tolist()
    offsets = np.cumsum([0, *(len(value) for value in values)]).astype("<u8")
    return offsets.tobytes().hex(), b"".join(values).hex()


def send(plane: Running, case: dict[str, Any]) -> None:
    """By REST, but for halves and complex numbers, which JSON does not carry."""
    if case["dtype"] not in ("float16", "complex64", "complex128"):
        reply = raw_predict(plane.rest, case["request"])
        assert reply.status == 200, reply.body
        return
    x = np.frombuffer(bytes.fromhex(case["bytes"]), case["dtype"]).reshape(case["rows"], *case["inner"])
    with Client(plane.grpc) as client:
        client.predict(MODEL, {"x": x})


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["dtype"])
def test_arrays_of_the_model_have_the_golden_bytes_and_are_logged_as_they_are(
    case: dict[str, Any], tmp_path: Path
) -> None:
    assert GOLDEN["format"] == "tidegate.tensors/1"
    shape = (-1, *case["inner"])
    seen: list[np.ndarray[Any, Any]] = []

    def identity(batch: Batch) -> dict[str, Any]:
        seen.append(batch.inputs["x"].copy())
        return {"y": batch.inputs["x"]}

    made = signature([("x", case["dtype"], shape)], [("y", case["dtype"], shape)])
    with running(publish(identity, made=made), log_all(), log_path=tmp_path) as plane:
        send(plane, case)
        rows = plane.logged(tmp_path, case["rows"])
    array = seen[0]
    assert array.dtype == np.dtype("O" if case["dtype"] == "string" else case["dtype"])
    assert array.shape == (case["rows"], *case["inner"])
    if case["dtype"] == "string":
        assert string_layout(array) == (case["offsets"], case["bytes"])
        array = np.vectorize(lambda value: value.decode(errors="backslashreplace"), otypes="O")(array)
    else:
        assert array.tobytes().hex() == case["bytes"]
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    for column in ("in.x", "out.y"):
        np.testing.assert_equal([row[column] for row in rows], array.tolist())


def test_an_input_is_writable_aligned_and_owns_no_copy() -> None:
    facts: list[tuple[bool, bool, bool, str]] = []

    def look(batch: Batch) -> dict[str, Any]:
        x = batch.inputs["x"]
        facts.append((x.flags.writeable, x.flags.aligned, x.flags.owndata, type(x.base).__name__))
        return half_plus_two(batch)

    with running(publish(look)) as plane:
        plane.predictions([1.0])
    assert facts == [(True, True, False, "_ColumnMemory")]


def test_a_model_may_keep_its_inputs() -> None:
    kept: list[np.ndarray[Any, Any]] = []

    def keep(batch: Batch) -> dict[str, Any]:
        kept.append(batch.inputs["x"])
        return half_plus_two(batch)

    with running(publish(keep)) as plane:
        for value in range(50):
            plane.predictions([float(value)])
    assert [array.tolist() for array in kept] == [[float(value)] for value in range(50)]
    kept[0][0] = -1.0
    assert [array.tolist() for array in kept[1:]] == [[float(value)] for value in range(1, 50)]


def test_memory_is_used_again_once_nobody_looks_at_it() -> None:
    places: set[int] = set()

    def note(batch: Batch) -> dict[str, Any]:
        places.add(batch.inputs["x"].ctypes.data)
        return half_plus_two(batch)

    with running(publish(note)) as plane:
        for value in range(50):
            plane.predictions([float(value)])
    assert len(places) <= 3


def test_a_model_that_writes_into_its_input_spoils_neither_the_log_nor_a_retry(tmp_path: Path) -> None:
    def spoil(batch: Batch) -> dict[str, Any]:
        x = batch.inputs["x"]
        answer = x * np.float32(2)
        x[:] = 99.0
        if batch.rows > 1 and (answer < 0).any():
            raise ValueError("negative")
        return {"y": answer}

    model = publish(spoil, timeout_us=200_000, max_batch_rows=2)
    with running(model, log_all(), log_path=tmp_path) as plane:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(plane.predictions, ([1.0], [-3.0])))
        assert answers == [[2.0], [-6.0]]
        logged = sorted((row["in.x"], row["out.y"]) for row in plane.logged(tmp_path, 2))
    assert logged == [(-3.0, -6.0), (1.0, 2.0)]


def test_a_batch_says_what_it_is_and_whose_rows_it_has() -> None:
    seen: list[tuple[str, int, str, int, list[int], list[str]]] = []

    def note(batch: Batch) -> dict[str, Any]:
        seen.append(
            (batch.model, batch.version, batch.signature, batch.rows, batch.request_offsets, list(batch.inputs))
        )
        return {"y": batch.inputs["b"]}

    made = signature([("b", "float32", (-1,)), ("a", "string", (-1,))], [OUTPUT])
    with running(publish(note, made=made)) as plane:
        assert plane.predictions([{"a": "s", "b": 1.0}, {"b": 2.0, "a": "t"}]) == [1.0, 2.0]
    assert seen == [("m", 1, "serving_default", 2, [0, 2], ["b", "a"])]


def test_strings_reach_the_model_as_bytes_in_any_shape() -> None:
    seen: list[list[Any]] = []

    def note(batch: Batch) -> dict[str, Any]:
        seen.append(batch.inputs["x"].tolist())
        return {"y": np.zeros(batch.rows, np.float32)}

    with running(publish(note, made=signature([("x", "string", (-1, 2))]))) as plane:
        plane.predictions([["a", "\u00e9"], ["", {"b64": "AP8="}]])
    assert seen == [[[b"a", "\u00e9".encode()], [b"", b"\0\xff"]]]


def test_inputs_of_unknown_size_keep_their_shape() -> None:
    def shape(batch: Batch) -> dict[str, Any]:
        return {"y": np.full(batch.rows, batch.inputs["x"].shape[2], np.float32)}

    with running(publish(shape, made=signature([("x", "float32", (-1, 2, -1))]))) as plane:
        assert plane.predictions([[[1, 2, 3], [4, 5, 6]]]) == [3.0]
        assert plane.error([[[1, 2], [4]]])[0] == 400
