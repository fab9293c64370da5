"""`Client.stream` against an engine of its own: its messages, what goes wrong with them, and who may ask."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serving.engine.test_data_ports import GuardedEngine
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate import Client
from tidegate_serving.contract.errors import (
    Cancelled,
    DeadlinePassed,
    InvalidInput,
    ModelFailed,
    NotFound,
    PermissionRefused,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.inference_log.reader import connect
from tidegate_serving.prediction import Prediction

MODEL = """
import time
from pathlib import Path

class Model:
    def count(self, inputs):
        n, folder = int(inputs["n"]), inputs["folder"].item().decode()
        try:
            for i in range(n):
                yield {"i": i, "words": [[f"w{i}", "", "\\u00e9"]]}
                if n == 7 and i == 3:
                    raise ValueError("broken at 3")
                if folder:
                    time.sleep(0.01)
        finally:
            if folder:
                Path(folder, "closed").touch()

    def predict(self, inputs):
        return {"y": inputs["x"] * 2}
"""
STREAM = Signature(
    (TensorSpec("n", "int64", ()), TensorSpec("folder", "string", ())),
    (TensorSpec("i", "int64", ()), TensorSpec("words", "string", (1, 3))),
    first_axis=FirstAxis.FREE,
    defaults={"folder": ""},
    streaming=True,
)
ONCE = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))
DRAFT = Draft(
    files={"model.py": MODEL},
    signatures={SERVING_DEFAULT: STREAM, "once": ONCE},
    metadata={"python.methods": f'{{"{SERVING_DEFAULT}": "count", "once": "predict"}}'},
    example={"n": 2, "folder": ""},
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("engine")
    log = {"log_path": folder / "log", "log_sampling_rate": 1.0, "log_block_seconds": 0.05}
    versions = [publish(folder / "r", "m", version, DRAFT) for version in (1, 2)]
    with EngineProcess(folder / "e", roots=[folder / "r"], allow_unverified=True, **log) as running:
        with running.control() as control:
            push_and_wait(control, *versions, labels={"stable": 1, "next": 2})
        yield running


@pytest.fixture
def client(engine: EngineProcess) -> Iterator[Client]:
    with engine.client() as made:
        yield made


def numbers(stream: Generator[Prediction]) -> list[int]:
    return [int(answer["i"]) for answer in stream]


def test_messages_come_one_by_one_from_the_version_that_is_meant(client: Client) -> None:
    answers = list(client.stream("m", {"n": 3}))
    assert [int(answer["i"]) for answer in answers] == [0, 1, 2]
    assert {(answer.model, answer.version) for answer in answers} == {("m", 1)}
    assert (answers[2]["i"].shape, answers[2]["i"].dtype.name) == ((), "int64")
    assert answers[2]["words"].tolist() == [[b"w2", b"", "é".encode()]]
    assert [answer.version for answer in client.stream("m", {"n": 1}, version=2)] == [2]
    assert [answer.version for answer in client.stream("m", {"n": 1}, label="next")] == [2]
    assert list(client.stream("m", {"n": 0})) == []
    (once,) = client.stream("m", {"x": np.array([1, 2], np.float32)}, signature="once")
    assert once["y"].tolist() == [2.0, 4.0]


def test_a_request_id_is_the_one_in_the_log(engine: EngineProcess, client: Client) -> None:
    assert numbers(client.stream("m", {"n": 2}, request_id="stream-of-two")) == [0, 1]

    def logged() -> list[Any]:
        if not list((engine.folder.parent / "log").rglob("*.parquet")):
            return []
        with connect(engine.folder.parent / "log") as connection:
            query = """SELECT "out.i" FROM log WHERE request_id = 'stream-of-two'"""
            return list(connection.execute(query).fetchall())

    assert eventually(logged, 20) == [(1,)]


def test_an_error_in_the_middle_comes_after_the_messages_before_it(client: Client) -> None:
    stream = client.stream("m", {"n": 7})
    assert [int(next(stream)["i"]) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ModelFailed, match="m:1 raised ValueError: broken at 3"):
        next(stream)
    assert list(stream) == [], "it has ended"


def test_errors_are_those_of_the_contract(client: Client) -> None:
    with pytest.raises(NotFound, match="none"):
        next(client.stream("none", {"n": 1}))
    with pytest.raises(NotFound):
        next(client.stream("m", {"n": 1}, version=9))
    with pytest.raises(InvalidInput, match="label: nobody"):
        next(client.stream("m", {"n": 1}, label="nobody"))
    with pytest.raises(InvalidInput, match="signature"):
        next(client.stream("m", {"n": 1}, signature="other"))
    with pytest.raises(InvalidInput, match="datatype FP64"):
        next(client.stream("m", {"n": 1.5}))
    with pytest.raises(Unsupported, match=r"streams carry no complex128: use one of .* for input 'n'"):
        client.stream("m", {"n": 1j})
    with Client("127.0.0.1:1") as nobody, pytest.raises(Unavailable, match=r"no engine answers at 127\.0\.0\.1:1"):
        next(nobody.stream("m", {"n": 1}))


@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("how", ["close", "drop", "throw"])
def test_a_stream_that_is_left_ends_the_generator(client: Client, tmp_path: Path, read: int, how: str) -> None:
    stream = client.stream("m", {"n": 100_000, "folder": str(tmp_path)})
    for number in range(read):
        assert next(stream)["i"] == number
    if how == "close":
        # One that is closed before the engine has seen it is not run at all.
        stream.close()
        assert list(stream) == []
    elif how == "throw":
        with pytest.raises(KeyError, match="mine"):
            stream.throw(KeyError("mine"))
        assert list(stream) == []
    else:
        del stream
        gc.collect()
    if read:
        assert eventually((tmp_path / "closed").exists)
    assert numbers(client.stream("m", {"n": 2}, timeout=60.0)) == [0, 1], "its executor is free again"


def test_a_timeout_is_for_all_of_a_stream(client: Client, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(DeadlinePassed):
        list(client.stream("m", {"n": 100_000, "folder": str(tmp_path)}, timeout=0.4))
    assert time.monotonic() - began > 0.3
    assert eventually((tmp_path / "closed").exists)


def test_a_client_that_closes_ends_its_streams(engine: EngineProcess, tmp_path: Path) -> None:
    client = engine.client()
    stream = client.stream("m", {"n": 100_000, "folder": str(tmp_path)})
    assert next(stream)["i"] == 0
    client.close()
    with pytest.raises(Cancelled):
        numbers(stream)
    assert eventually((tmp_path / "closed").exists)


def test_a_token_goes_with_a_stream_over_tls(tmp_path: Path) -> None:
    with GuardedEngine(tmp_path / "guarded") as guarded:
        x = {"x": np.array([1, 2], np.float32)}
        with guarded.client("anna") as anna:
            (answer,) = anna.stream("flights", x)
            assert answer.model == "flights"
            with pytest.raises(PermissionRefused, match=r"about 'prices'"):
                next(anna.stream("prices", x))
        with guarded.client() as nobody, pytest.raises(Unauthenticated):
            next(nobody.stream("flights", x))
