"""Streaming answers in a program of its own: a generator served, its messages read, left and waited for."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import eventually

from tidegate import Engine
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import DeadlinePassed, InvalidInput, ModelFailed

INPUTS = {"n": ("int64", ())}
OUTPUTS = {"i": ("int64", ())}


class Counter:
    """Counts up to n, and how far it got."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = threading.Event()
        self.pause = 0.0

    def count(self, n: Any) -> Iterator[dict[str, int]]:
        try:
            for i in range(int(n)):
                self.made = i + 1
                yield {"i": i}
                time.sleep(self.pause)
        finally:
            self.closed.set()


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


@pytest.fixture
def counter(engine: Engine) -> Counter:
    made = Counter()
    engine.serve("m", made.count, inputs=INPUTS, outputs=OUTPUTS)
    return made


def test_a_generator_is_read_message_by_message(engine: Engine, counter: Counter) -> None:
    answers = list(engine.stream("m", {"n": 3}))
    assert [int(answer["i"]) for answer in answers] == [0, 1, 2]
    assert {(answer.model, answer.version) for answer in answers} == {("m", 1)}
    assert list(engine.stream("m", {"n": 0})) == []


def test_a_model_does_not_get_far_ahead_of_its_reader(engine: Engine, counter: Counter) -> None:
    stream = engine.stream("m", {"n": 100_000})
    for number in range(100):
        assert next(stream)["i"] == number
        eventually(lambda number=number: counter.made > number + 8)  # type: ignore[misc]
        assert counter.made <= number + 12, "messages are made that nobody reads"
    assert not counter.closed.is_set()
    stream.close()
    assert counter.closed.wait(10)


@pytest.mark.parametrize("read", [0, 1])
def test_a_stream_that_is_dropped_ends_its_generator(engine: Engine, counter: Counter, read: int) -> None:
    stream = engine.stream("m", {"n": 100_000})
    for _ in range(read):
        next(stream)
    eventually(lambda: counter.made > 0)
    del stream
    assert counter.closed.wait(10)
    assert [int(answer["i"]) for answer in engine.stream("m", {"n": 1})] == [0], "its executor is free again"


def test_errors_come_where_they_happen(engine: Engine) -> None:
    def broken(n: Any) -> Iterator[dict[str, Any]]:
        yield {"i": 1}
        if n == 0:
            yield {"j": 2}
        raise ValueError("no more")

    engine.serve("m", broken, inputs=INPUTS, outputs=OUTPUTS)
    stream = engine.stream("m", {"n": 1})
    assert next(stream)["i"] == 1
    with pytest.raises(ModelFailed, match="m:1 raised ValueError: no more"):
        next(stream)
    with pytest.raises(ModelFailed, match="m:1 gave no output 'i'"):
        list(engine.stream("m", {"n": 0}))
    with pytest.raises(InvalidInput, match="Sent extra"):
        engine.stream("m", {"n": 1, "x": 2})
    with pytest.raises(InvalidInput, match=r"in process with Engine\.stream"):
        engine.predict("m", {"n": 1})
    engine.serve("once", lambda x: {"y": x}, inputs={"x": "float32"})
    with pytest.raises(InvalidInput, match=r"in process with Engine\.predict"):
        list(engine.stream("once", {"x": [1.0]}))


def test_a_generator_needs_to_say_its_outputs(engine: Engine, counter: Counter) -> None:
    with pytest.raises(InvalidInput, match="the callable is a generator: say the outputs of its messages too"):
        engine.serve("other", counter.count, inputs=INPUTS)


def test_a_timeout_is_for_all_of_a_stream(engine: Engine, counter: Counter) -> None:
    counter.pause = 0.05
    with pytest.raises(DeadlinePassed, match="the deadline passed while the request ran"):
        list(engine.stream("m", {"n": 100_000}, timeout=1.0))
    assert 1 <= counter.made < 1000
    assert counter.closed.wait(10)


def test_without_one_the_config_bounds_the_wait_for_each_message(tmp_path: Path) -> None:
    config = EngineConfig(
        grpc_address="",
        rest_address="",
        control_address="",
        state_directory=tmp_path,
        request_timeout_seconds=2.0,
    )
    counter = Counter()
    counter.pause = 0.3
    with Engine(config) as engine:
        engine.serve("m", counter.count, inputs=INPUTS, outputs=OUTPUTS)
        began = time.monotonic()
        assert len(list(engine.stream("m", {"n": 10}))) == 10
        assert time.monotonic() - began > 2.0, "longer than the timeout in all"
        counter.pause = 4.0
        stream = engine.stream("m", {"n": 10})
        assert next(stream)["i"] == 0
        with pytest.raises(DeadlinePassed):
            next(stream)


def test_a_stream_of_events_without_a_message_sends_comments() -> None:
    go = threading.Event()

    def wait(n: Any) -> Iterator[dict[str, int]]:
        yield {"i": 0}
        go.wait(30)
        yield {"i": 1}

    config = EngineConfig(grpc_address="", rest_address="127.0.0.1:0", control_address="", event_keepalive_seconds=0.05)
    with Engine(config) as engine:
        engine.serve("m", wait, inputs=INPUTS, outputs=OUTPUTS)
        connection = http.client.HTTPConnection(engine.addresses.rest, timeout=30)
        connection.request("POST", "/v1/models/m:predict", '{"inputs": {"n": 1}}', {"Accept": "text/event-stream"})
        response = connection.getresponse()
        begun = [response.readline() for _ in range(6)]
        go.set()
        rest = response.read()
        connection.close()
    assert begun == [b'data: {"outputs":0}\n', b"\n", *[b": keep-alive\n", b"\n"] * 2]
    without = rest.replace(b": keep-alive\n\n", b"")
    assert without == b'data: {"outputs":1}\n\nevent: end\ndata: {"messages":2}\n\n'
