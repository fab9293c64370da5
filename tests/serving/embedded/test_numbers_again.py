"""A number that served before serves again, and what fails on the way leaves what served and says why."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import DeadlinePassed, ModelFailed
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.engine import Engine

SIGNATURE: dict[str, Any] = {"inputs": {"x": "float32"}, "outputs": {"y": "float32"}}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def adding(number: float) -> Callable[[Any], dict[str, Any]]:
    return lambda x: {"y": x + number}


def answer(engine: Engine) -> float:
    return float(engine.predict("m", {"x": [0.0]})["y"][0])


def test_two_numbers_take_turns_and_each_serves_what_was_said_last(engine: Engine) -> None:
    for turn in range(40):
        number = 1 + turn % 2
        assert engine.serve("m", adding(turn), version=number, **SIGNATURE) == ServableId("m", number)
        assert answer(engine) == turn


def test_a_number_whose_requests_are_not_answered_yet_serves_again_once_they_are(engine: Engine) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def waits(x: Any) -> dict[str, Any]:
        began.set()
        assert goes_on.wait(30)
        return {"y": x}

    engine.serve("m", waits, version=1, **SIGNATURE)
    asks = threading.Thread(target=answer, args=(engine,))
    asks.start()
    assert began.wait(30)
    engine.serve("m", adding(2), version=2, **SIGNATURE)
    with pytest.raises(DeadlinePassed, match=r"what was m:1 before is not unloaded after 0 s"):
        engine.serve("m", adding(3), version=1, timeout=0, **SIGNATURE)
    assert answer(engine) == 2
    goes_on.set()
    engine.serve("m", adding(3), version=1, **SIGNATURE)
    assert answer(engine) == 3
    asks.join()


def test_a_version_that_fails_leaves_the_one_before_and_says_why(engine: Engine, tmp_path: Path) -> None:
    engine.serve("m", adding(1), **SIGNATURE)
    broken = publish(tmp_path, "m", 2, Draft(files={"model.py": "raise ValueError('broken weights')\n"}))
    with pytest.raises(ModelFailed, match="broken weights") as caught:
        engine.load(broken)
    assert isinstance(caught.value.__cause__, ModelFailed)
    servable = engine.status("m").servable("m")
    assert servable is not None
    assert [one.version for one in servable.versions if one.state is State.AVAILABLE] == [1]
    assert answer(engine) == 1
