"""What is kept of sequences, with a clock that is set by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidegate_serving.contract.errors import InvalidInput, ResourceExhausted
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.python.sequences import Sequence, SequenceLimits, Sequences

ID = ServableId("m", 3)
ONE = TensorSpec("x", "float32", (1, 1))
LIMITS = SequenceLimits(idle_seconds=5.0, most=2)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sequences(clock: Clock) -> Sequences:
    return Sequences(ID, LIMITS, clock)


def add(inputs: dict[str, Array], sequence: Sequence) -> Any:
    """The sum so far; below zero it fails, after it has added."""
    assert set(inputs) == {"x"}
    sequence.state["sum"] = sequence.state.get("sum", 0) + int(inputs["x"].item())
    if inputs["x"] < 0:
        raise ValueError("below zero")
    return sequence.state["sum"]


def ask(sequences: Sequences, x: int, of: str, start: bool = False, end: bool = False) -> Any:
    inputs = {"x": np.array(x), "sequence_id": np.array(of.encode(), dtype=object)}
    return sequences.ask(add, {**inputs, "sequence_start": np.array(start), "sequence_end": np.array(end)})


def test_each_sequence_has_its_own_state_from_its_start_to_its_end(sequences: Sequences) -> None:
    assert [ask(sequences, 1, "a", start=True), ask(sequences, 10, "b", start=True), ask(sequences, 2, "a")] == [
        1,
        10,
        3,
    ]
    assert [ask(sequences, 20, "b", end=True), ask(sequences, 4, "a", end=True)] == [30, 7]
    for ended in ("a", "b"):
        with pytest.raises(InvalidInput, match=f"for sequence {ended} to model 'm' must specify the START flag"):
            ask(sequences, 1, ended)
    assert ask(sequences, 5, "a", start=True, end=True) == 5


def test_a_start_begins_anew(sequences: Sequences) -> None:
    assert [ask(sequences, 1, "a", start=True), ask(sequences, 5, "a", start=True), ask(sequences, 1, "a")] == [1, 5, 6]


def test_a_request_without_a_sequence_is_refused(sequences: Sequences) -> None:
    for nothing in ("", "0"):
        with pytest.raises(InvalidInput, match="must specify a non-zero or non-empty correlation ID"):
            ask(sequences, 1, nothing, start=True)
    assert ask(sequences, 1, "ä" * 64, start=True) == 1
    with pytest.raises(InvalidInput, match="cannot be longer than 128 characters"):
        ask(sequences, 1, "a" * 129, start=True)


def test_one_without_requests_is_forgotten_and_makes_room(sequences: Sequences, clock: Clock) -> None:
    ask(sequences, 1, "a", start=True)
    assert ask(sequences, 1, "a") == 2
    clock.now += 3
    ask(sequences, 0, "b", start=True)
    assert ask(sequences, 1, "b") == 1
    with pytest.raises(ResourceExhausted, match=r"m:3 has 2 sequences under way, the most it may have"):
        ask(sequences, 1, "c", start=True)
    assert ask(sequences, 1, "a") == 3
    clock.now += 4
    assert ask(sequences, 1, "a") == 4
    clock.now += 2
    assert ask(sequences, 1, "c", start=True) == 1
    with pytest.raises(InvalidInput, match="or it had no request for 5 s"):
        ask(sequences, 1, "b")


def test_one_that_began_and_never_went_on_makes_room_soon(sequences: Sequences, clock: Clock) -> None:
    ask(sequences, 1, "goes on", start=True)
    ask(sequences, 1, "left", start=True)
    with pytest.raises(ResourceExhausted):
        ask(sequences, 1, "new", start=True)
    assert ask(sequences, 1, "goes on") == 2
    clock.now += 0.6
    assert ask(sequences, 1, "new", start=True) == 1
    why = "for sequence left to model 'm' must specify the START flag.*or none but its first for 0.5 s while 2 were"
    with pytest.raises(InvalidInput, match=why):
        ask(sequences, 1, "left")
    clock.now += 0.6
    assert [ask(sequences, 1, "new"), ask(sequences, 1, "goes on")] == [2, 3]
    with pytest.raises(ResourceExhausted):
        ask(sequences, 1, "newer", start=True)


def test_a_request_that_fails_leaves_its_sequence_unless_it_ends_it(sequences: Sequences) -> None:
    ask(sequences, 1, "a", start=True)
    with pytest.raises(ValueError, match="below zero"):
        ask(sequences, -1, "a")
    assert ask(sequences, 5, "a") == 5
    with pytest.raises(ValueError, match="below zero"):
        ask(sequences, -1, "a", end=True)
    with pytest.raises(InvalidInput, match="START flag"):
        ask(sequences, 5, "a")


def test_a_signature_gets_the_inputs_that_it_does_not_name() -> None:
    written = {"inputs": [ONE.to_dict()], "outputs": [ONE.to_dict()], "first_axis": "free", "sequences": True}
    found = Signature.from_dict(written)
    assert found.input_names == ("x", "sequence_id", "sequence_start", "sequence_end")
    assert found.defaults == {"sequence_start": False, "sequence_end": False}
    assert Signature.from_dict(found.to_dict()) == found
    with pytest.raises(InvalidInput, match="needs input 'sequence_id' of dtype string"):
        Signature((ONE,), (ONE,), first_axis=FirstAxis.FREE, sequences=True)
    wrong = [ONE.to_dict(), TensorSpec("sequence_end", "int32", ()).to_dict()]
    with pytest.raises(InvalidInput, match="needs input 'sequence_end' of dtype bool"):
        Signature.from_dict({**written, "inputs": wrong})
    batched = [TensorSpec("x", "float32").to_dict()]
    with pytest.raises(InvalidInput, match=r"first axis .*free"):
        Signature.from_dict({"inputs": batched, "outputs": batched, "sequences": True})
    with pytest.raises(InvalidInput, match="no streaming"):
        Signature.from_dict({**written, "streaming": True})
