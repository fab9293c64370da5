"""A model that raises an error with a huge text, or one that cannot be told, is logged and answered in few words, where
it runs in the engine's process and in a worker, and serves on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.support.clients import rest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed

HUGE = 200_000_000
SOURCE = f"""
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.loader import Answer

class Nameless(Exception):
    def __str__(self):
        raise RuntimeError("it has none")

class Model:
    def predict(self, inputs):
        x = inputs["x"]
        if (x == 101).any():
            raise ValueError("v" * {HUGE})
        if (x == 102).any():
            error = ValueError("loops")
            raise error from error
        if (x == 103).any():
            raise Nameless
        if (x == 104).any():
            raise InvalidInput("v" * {HUGE})
        if (x == 105).any():
            return Answer({{"y": x}}, {{0: InvalidInput("v" * {HUGE}, "v" * {HUGE})}})
        if (x == 106).any():
            raise InvalidInput("half of a pair: \\ud800")
        return {{"y": x}}
"""
LOADS_NOT = f"""
class Model:
    def __init__(self, directory):
        error = KeyError("v" * {HUGE})
        raise error from error
"""


@pytest.fixture(scope="module", params=["engine", "pool"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("huge")
    publish(folder / "r", "m", 1, Draft(files={"model.py": SOURCE}))
    publish(folder / "r", "loads-not", 1, Draft(files={"model.py": LOADS_NOT}))
    config = {"repository": folder / "r", "allow_unverified": True, "isolation": request.param}
    with EngineProcess(folder / "engine", **config) as running:
        yield running


@pytest.mark.parametrize(
    ("value", "kind", "match"),
    [
        (101, ModelFailed, "m:1 raised ValueError: vvv"),
        (102, ModelFailed, "m:1 raised ValueError: loops"),
        (103, ModelFailed, r"m:1 raised Nameless: \(its text raised RuntimeError\)"),
        (104, InvalidInput, "vvv"),
        (105, InvalidInput, "vvv"),
        (106, InvalidInput, "half of a pair: "),
    ],
)
def test_it_is_answered_in_few_words(engine: EngineProcess, value: float, kind: type[Exception], match: str) -> None:
    with engine.client() as client:
        with pytest.raises(kind, match=match) as raised:
            client.predict("m", {"x": np.array([value], np.float32)}, timeout=30)
        assert len(str(raised.value)) < 20_000
        assert client.predict("m", {"x": np.zeros(1, np.float32)}).outputs["y"].tolist() == [0.0]
    assert len(rest.predict(engine.addresses["rest"], "m", [value]).body) < 20_000


def test_it_is_logged_in_few_words(engine: EngineProcess) -> None:
    assert rest.predict(engine.addresses["rest"], "m", [101.0]).status == 500
    eventually(lambda: "loads-not:1 did not load" in engine.said())
    said = engine.said()
    assert "KeyError: 'vvv" in said
    assert len(said) < 1_000_000
