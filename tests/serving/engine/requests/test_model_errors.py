"""What a model does wrong reaches exactly the clients it concerns, with the right code, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.support.clients import rest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed

SOURCE = """
import numpy as np
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.loader import Answer

class Model:
    def predict(self, inputs):
        x = inputs["x"]
        if (x == 100).any():
            raise RuntimeError("one hundred is too much")
        if (x == 101).any():
            raise InvalidInput("101 is no input")
        if (x == 102).any():
            raise SystemExit(7)
        if (x == 103).any():
            return {"y": x[:-1]}
        if (x == 104).any():
            return {"z": x}
        if (x == 105).any():
            return {"y": x.astype("c8")}
        if (x == 106).any():
            return None
        errors = {int(row): InvalidInput("negative") for row in np.flatnonzero(x < 0)}
        kept = x.copy()
        x[:] = -1
        return Answer({"y": kept}, errors)
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("errors")
    directory = publish(folder / "r", "m", 1, Draft(files={"model.py": SOURCE}))
    batching = {"timeout_us": 100_000, "max_batch_rows": 64}
    config = {"roots": [folder / "r"], "allow_unverified": True, "batching": batching}
    with EngineProcess(folder / "engine", **config) as running:
        with running.control() as control:
            push_and_wait(control, directory)
        yield running


@pytest.mark.parametrize(
    ("value", "kind", "match"),
    [
        (100, ModelFailed, "m:1 raised RuntimeError: one hundred is too much"),
        (101, InvalidInput, "101 is no input"),
        (102, ModelFailed, "m:1 raised SystemExit: 7"),
        (103, ModelFailed, r"output 'y' of shape \[0\] for 1 rows"),
        (104, ModelFailed, "gave no output 'y'"),
        (105, ModelFailed, "dtype complex64"),
        (106, ModelFailed, "returned NoneType: return a dict"),
        (-1, InvalidInput, "negative"),
    ],
)
def test_codes_and_texts(engine: EngineProcess, value: float, kind: type[Exception], match: str) -> None:
    with engine.client() as client:
        with pytest.raises(kind, match=match):
            client.predict("m", {"x": np.array([value], dtype=np.float32)})
        assert client.predict("m", {"x": np.ones(1, np.float32)}).outputs["y"].tolist() == [1.0]


def test_an_error_over_rest_is_json_with_its_status(engine: EngineProcess) -> None:
    for value, status in ((100, 500), (101, 400), (-1, 400)):
        reply = rest.predict(engine.addresses["rest"], "m", [value])
        assert (reply.status, list(reply.json())) == (status, ["error"])


@pytest.mark.parametrize("bad", [100.0, -5.0])
def test_one_bad_request_in_a_batch_fails_alone_and_answers_are_never_mixed(engine: EngineProcess, bad: float) -> None:
    def ask(number: int) -> list[float] | str:
        value = bad if number % 16 == 7 else float(number % 90)
        x = np.full(1 + number % 3, value, dtype=np.float32)
        with engine.client() as client:
            try:
                return [float(y) for y in client.predict("m", {"x": x}).outputs["y"]]
            except (ModelFailed, InvalidInput) as error:
                return error.code

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(ask, range(320)))
    for number, answer in enumerate(answers):
        if number % 16 == 7:
            assert answer == ("model_failed" if bad == 100 else "invalid_input")
        else:
            assert answer == [float(number % 90)] * (1 + number % 3), number
    counters = rest.call(engine.addresses["rest"], "GET", "/metrics").body.decode()
    rows = next(line for line in counters.splitlines() if line.startswith("tidegate_rows_total{"))
    batches = next(line for line in counters.splitlines() if line.startswith("tidegate_batches_total{"))
    assert float(batches.split()[-1]) < float(rows.split()[-1]) / 2, "requests really shared batches"
