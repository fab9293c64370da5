"""Requests of different lengths: batched by shape side by side, or padded into one batch as TensorFlow Serving does."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
from tests.support.clients import official_client
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.control.batch_report import signature_batches
from tidegate_serving.inference_log.reader import connect

RECORDER = """
import numpy as np

class Model:
    def __init__(self, directory):
        self.asked = directory.parent / "asked.txt"

    def predict(self, inputs):
        with self.asked.open("a") as file:
            file.write(" ".join(map(str, inputs["x"].shape)) + "\\n")
        return {"y": inputs["x"]}
"""
LISTS = Signature((TensorSpec("x", "float32", (-1, -1)),), (TensorSpec("y", "float32", (-1, -1)),))
TEXTS = Signature((TensorSpec("x", "string", (-1, -1)),), (TensorSpec("y", "string", (-1, -1)),))


class Bench:
    """An engine whose batches wait long for six rows; the models note what they are asked."""

    def __init__(self, folder: Path, rows: int, **batching: Any) -> None:
        self.folder = folder
        lists = Draft(files={"model.py": RECORDER}, signature=LISTS, example={"x": [1.0]})
        texts = Draft(files={"model.py": RECORDER}, signature=TEXTS, example={"x": ["a"]})
        self.versions = [publish(folder / "r", name, 1, draft) for name, draft in (("lists", lists), ("texts", texts))]
        self.engine = EngineProcess(
            folder / "engine",
            roots=[folder / "r"],
            allow_unverified=True,
            log_path=folder / "log",
            log_block_seconds=0.05,
            batching={"max_batch_rows": rows, "timeout_us": 60_000_000, **batching},
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.engine)
            with self.engine.control() as control:
                for version in self.versions:
                    push_and_wait(control, version)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def asked(self, name: str) -> list[str]:
        """Shapes of the model's batches, in order, after that of the example."""
        return (self.folder / "r" / name / "asked.txt").read_text().splitlines()[1:]

    def closed(self, name: str) -> dict[str, float]:
        """Batches by why they closed."""
        with self.engine.control() as control:
            (found,) = signature_batches(control.status(name).counters)
        return {reason: closed.batches for reason, closed in found.closed.items()}

    def infer(self, name: str, kind: str, *inputs: Any) -> list[Any]:
        """Answers to requests that Triton's client sends all at once."""
        answers: queue.Queue[Any] = queue.Queue()
        with over_grpc.InferenceServerClient(self.engine.addresses["grpc"]) as client:
            for number, array in enumerate(inputs):
                sent = over_grpc.InferInput("x", array.shape, kind)
                sent.set_data_from_numpy(array)
                client.async_infer(
                    name, [sent], lambda result, error: answers.put((result, error)), request_id=str(number)
                )
            found: list[Any] = [None] * len(inputs)
            for _ in inputs:
                result, error = answers.get(timeout=120)
                assert error is None, error
                found[int(result.get_response().id)] = result.as_numpy("y")
        return found


@pytest.fixture(scope="module")
def padding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("padding"), 6, pad_variable_length_inputs=True) as bench:
        yield bench


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("plain"), 4) as bench:
        yield bench


def test_official_clients_share_a_padded_batch_and_the_log_has_what_they_sent(padding: Bench) -> None:
    answers = official_client.run("ragged", padding.engine.addresses["grpc"], "lists")
    assert answers == {
        "1": [1, 1, 1],
        "2": [2, 3, 2],
        "4": [4, 5, 6],
        "7": [7, 7, 7],
        "8": [8, 9, 8],
        "10": [10, 11, 12],
    }
    assert padding.asked("lists") == ["6 3"]
    assert padding.closed("lists") == {"full": 1}

    def logged() -> list[list[float]]:
        with connect(padding.folder / "log") as connection:
            rows = connection.execute("SELECT \"in.x\" FROM log WHERE model = 'lists'").fetchall()
        return sorted(list(row[0]) for row in rows)

    eventually((padding.folder / "log" / "model=lists").exists)
    eventually(lambda: len(logged()) == 6)
    assert logged() == [[1], [2, 3], [4, 5, 6], [7], [8, 9], [10, 11, 12]]


def test_strings_are_padded_with_the_first_of_their_request(padding: Bench) -> None:
    texts = [np.array([row], dtype=object) for row in ([b"a"], [b"b", b"c"], [b"", b"d", b"e"], [b"f"], [b"g"], [b"h"])]
    found = padding.infer("texts", "BYTES", *texts)
    assert [one.tolist()[0] for one in found] == [
        [b"a", b"a", b"a"],
        [b"b", b"c", b"b"],
        [b"", b"d", b"e"],
        *([letter] * 3 for letter in (b"f", b"g", b"h")),
    ]
    assert padding.asked("texts") == ["6 3"]


def test_alternating_shapes_fill_batches_side_by_side_where_nothing_is_padded(plain: Bench) -> None:
    arrays = [np.full((1, 1 + number % 2), number, np.float32) for number in range(16)]
    found = plain.infer("lists", "FP32", *arrays)
    assert all(np.array_equal(one, sent) for one, sent in zip(found, arrays, strict=True))
    assert sorted(plain.asked("lists")) == ["4 1", "4 1", "4 2", "4 2"]
    assert plain.closed("lists") == {"full": 4}
