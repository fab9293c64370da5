"""Both ends of a channel in one process, the engine's and a worker's: what arrives is what was sent, each time."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tidegate_native as native

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.workers.channel import Channel, ChannelClosed
from tidegate_serving.workers.tensor_memory import TensorMemory, TheirMemory


class Line:
    """The engine's end, as the worker's end is used."""

    def __init__(self, line: native.WorkerLine) -> None:
        self.line = line

    def send(self, message: dict[str, Any], tensors: dict[str, Any] | None = None) -> None:
        self.line.send(json.dumps(message).encode(), tensors)

    def receive(self) -> tuple[dict[str, Any], dict[str, Any]]:
        text, tensors = self.line.receive()
        return json.loads(text), tensors

    def close(self) -> None:
        self.line.hang_up()


Ends = tuple[Channel | Line, Channel | Line]


def channel(line: native.WorkerLine) -> Channel:
    end = socket.socket(fileno=line.take_other_end())
    end.settimeout(10)
    return Channel(end)


@pytest.fixture(params=["to the worker", "to the engine"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """The sender's and the receiver's."""
    line = native.WorkerLine()
    engine, worker = Line(line), channel(line)
    yield (engine, worker) if request.param == "to the worker" else (worker, engine)
    engine.close()
    worker.close()


def told(ends: Ends, message: dict[str, Any], tensors: dict[str, Any] | None = None) -> dict[str, Any]:
    """What arrives of tensors, after the message was checked."""
    ends[0].send(message, tensors)
    arrived, found = ends[1].receive()
    assert arrived == message
    return found


def test_messages_and_layouts_that_come_back_carry_their_own_values(ends: Ends) -> None:
    for turn in range(6):
        rows = 2 + turn % 2
        x = np.full((rows, 3), turn, ">f4")
        s = np.array(["a" * turn, "b"], object)
        found = told(ends, {"kind": "predict", "signature": str(turn // 2)}, {"x": x, "s": s})
        assert found["x"].dtype == np.dtype("<f4")
        assert found["x"].tolist() == x.tolist()
        assert found["s"].tolist() == [b"a" * turn, b"b"]
        found["x"][:] = -1


def test_memory_comes_with_the_first_tensors_that_need_some(ends: Ends) -> None:
    assert told(ends, {"kind": "next"}) == {}
    assert told(ends, {"kind": "outputs"}, {"y": np.zeros((0, 2), np.int16)})["y"].shape == (0, 2)
    assert told(ends, {"kind": "outputs"}, {"y": np.array(5)})["y"] == 5
    large = np.arange(1 << 20)
    assert np.array_equal(told(ends, {"kind": "outputs"}, {"y": large})["y"], large)


@pytest.mark.parametrize("cuts", [(1,), (8,), (9, 10, 11), (100,), (5_000, 9_000)])
@pytest.mark.parametrize("to_the_engine", [False, True])
def test_a_message_is_whole_however_it_is_cut(cuts: tuple[int, ...], to_the_engine: bool) -> None:
    message = {"kind": "predict", "signature": "s" * 10_000}
    writer, raw = socket.socketpair()
    line = native.WorkerLine()
    if to_the_engine:
        receiver: Channel | Line = Line(line)
        cutter = socket.socket(fileno=line.take_other_end())
    else:
        cutter, reader = socket.socketpair()
        receiver = Channel(reader)
    sender = Channel(writer)
    with closing(sender), closing(receiver), raw, cutter:
        sender.send(message, {"x": np.arange(3)})
        data, descriptors, _flags, _address = socket.recv_fds(raw, 1 << 16, 1)
        places = [0, *cuts, len(data)]
        with ThreadPoolExecutor(1) as other:
            arrives = other.submit(receiver.receive)
            for start, end in pairwise(places):
                socket.send_fds(cutter, [data[start:end]], descriptors if start == 0 else [])
            arrived, found = arrives.result(10)
        os.close(descriptors[0])
        assert arrived == message
        assert found["x"].tolist() == [0, 1, 2]


def test_a_message_that_was_changed_goes_as_it_is_now(ends: Ends) -> None:
    message: dict[str, Any] = {"kind": "predict", "signature": "one"}
    assert told(ends, message) == {}
    message["signature"] = "two"
    assert told(ends, message) == {}


def test_a_close_may_follow_a_batch_at_once(ends: Ends) -> None:
    for x in ([1], [2, 3]):
        ends[0].send({"kind": "predict"}, {"x": np.array(x)})
        ends[0].send({"kind": "close"})
        message, found = ends[1].receive()
        assert (message, found["x"].tolist()) == ({"kind": "predict"}, x)
        assert ends[1].receive() == ({"kind": "close"}, {})


@pytest.mark.parametrize("to_the_engine", [True, False])
def test_what_somebody_else_said_over_the_socket_is_no_message(to_the_engine: bool) -> None:
    if to_the_engine:
        line = native.WorkerLine()
        end = socket.socket(fileno=line.take_other_end())
        receiver: Channel | Line = Line(line)
    else:
        end, other = socket.socketpair()
        receiver = Channel(other)
    child, parent = Channel(end.dup()), Channel(end)
    parent.send({"kind": "end"})
    assert receiver.receive() == ({"kind": "end"}, {})
    child.send({"kind": "end"})
    with pytest.raises(ValueError, match="message 1 came in place of 2: somebody else has the socket too"):
        receiver.receive()
    for one in (child, parent, receiver):
        one.close()


def test_what_was_left_to_the_parent_process_is_not_written_to() -> None:
    line = native.WorkerLine()
    sender = channel(line)
    sender.send({"kind": "outputs"}, {"y": np.zeros(1)})
    sender.leave_to_parent()
    with pytest.raises(ChannelClosed, match="closed on this side"):
        sender.send({"kind": "outputs"}, {"y": np.ones(1)})
    assert line.receive()[1]["y"].tolist() == [0.0], "the memory is the parent's"
    sender.close()


def test_a_channel_says_that_the_other_side_is_gone(ends: Ends) -> None:
    ends[0].close()
    with pytest.raises((ChannelClosed, ConnectionError)):
        ends[1].receive()
    with pytest.raises((ChannelClosed, ConnectionError)):
        ends[1].send({"kind": "next"})


NO_SENSE = [
    ["y", "float32", [2], 8, -64],
    ["y", "float32", [2], 8, 1 << 16],
    ["y", "float32", [2], 8, (1 << 64) - 8],
    ["y", "float32", [3], 8, 0],
    ["y", "float32", [-1, -2], 8, 0],
    ["y", "float32", [1 << 62, 4], 8, 0],
    ["y", "object", [1], 8, 0],
    ["y", "string", [1], 1 << 17, 0],
    ["y", "string", [1], -1, 64],
    ["y", "string", [1], 8, 0],
    ["y", "float32", [2], 8],
    None,
]


@pytest.mark.parametrize("place", NO_SENSE)
def test_a_layout_that_makes_no_sense_is_refused(place: object) -> None:
    with pytest.raises((TypeError, ValueError, InvalidInput)):
        _read(place)


@pytest.mark.parametrize("place", [*NO_SENSE, ["y", "float32", [2], 8, 0.5]])
def test_a_layout_that_makes_no_sense_is_refused_by_the_engine(place: object) -> None:
    with pytest.raises(ValueError, match=r"tensor 'y' of|offset: "):
        _read_by_the_engine([place])


@pytest.mark.parametrize("offsets", [(1, 1, 2), (0, 2, 1), (0, 1, 1), (0, 1 << 40, 2)])
def test_offsets_of_strings_that_make_no_sense_are_refused_by_the_engine(offsets: tuple[int, ...]) -> None:
    data = np.array(offsets, "<u8").tobytes() + b"ab"
    with pytest.raises(ValueError, match="the offsets of string tensor 'y' make no sense"):
        _read_by_the_engine([["y", "string", [2], len(data), 0]], data)


def test_memory_that_may_shrink_is_refused_by_the_engine() -> None:
    with pytest.raises(ConnectionError, match="the memory for tensors is not sealed"):
        _read_by_the_engine([["y", "float32", [2], 8, 0]], sealed=False)


def test_an_answer_that_no_protocol_can_carry_is_refused_by_the_engine() -> None:
    rows = 3 << 28
    with pytest.raises(ValueError, match="tensors of more than 2147483648 bytes are no answer"):
        _read_by_the_engine([["y", "float32", [rows], 4 * rows, 0]], size=4 * rows)


def test_a_tensor_outside_the_memory_is_told_as_such() -> None:
    with pytest.raises(ValueError, match="a tensor of 8 bytes at 65536 lies outside the memory"):
        _read(["y", "float32", [2], 8, 1 << 16])


@pytest.mark.parametrize(("rows", "kept"), [(1 << 18, True), (1 << 24, False)])
def test_large_memory_is_for_one_message_alone(ends: Ends, rows: int, kept: bool) -> None:
    before = _batch_memory()
    for value in (1.0, 2.0):
        assert (told(ends, {"kind": "predict"}, {"x": np.full(rows, value, np.float32)})["x"] == value).all()
    assert bool(_batch_memory() - before) is kept


def _batch_memory() -> set[int]:
    """The files of the memory for batches that this process has open or mapped."""
    found = {path.stat().st_ino for path in Path("/proc/self/fd").iterdir() if _is_for_batches(path)}
    lines = Path("/proc/self/maps").read_text().splitlines()
    return found | {int(line.split()[4]) for line in lines if "tidegate-batch" in line}


def _is_for_batches(descriptor: Path) -> bool:
    try:
        return "tidegate-batch" in str(descriptor.readlink())
    except FileNotFoundError:  # it was that of the list
        return False


def _read(place: object) -> None:
    mine, theirs = TensorMemory(), TheirMemory()
    _, descriptor = mine.write({"y": np.zeros(2, np.float32)})
    assert descriptor is not None
    theirs.map(os.dup(descriptor))
    try:
        theirs.read(json.dumps([place]).encode())
    finally:
        mine.close()
        theirs.close()


def _read_by_the_engine(layout: object, data: bytes = bytes(8), size: int = 1 << 16, sealed: bool = True) -> None:
    line = native.WorkerLine()
    descriptor = os.memfd_create("written", os.MFD_ALLOW_SEALING)
    with socket.socket(fileno=line.take_other_end()) as end:
        try:
            os.ftruncate(descriptor, size)
            os.pwrite(descriptor, data, 0)
            if sealed:
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            text, layout_text = b'{"kind": "outputs", "errors": {}}', json.dumps(layout).encode()
            head = struct.pack(">III", 1, len(text), len(layout_text))
            socket.send_fds(end, [head + text + layout_text], [descriptor])
        finally:
            os.close(descriptor)
        line.receive()
