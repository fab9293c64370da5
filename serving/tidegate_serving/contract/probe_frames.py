"""Frames between the robustness gate and `python -m tidegate_serving.probe`: a JSON head, then raw tensors.

    4 bytes big-endian length of the head | head (JSON, UTF-8) | tensors in the order of the head's `tensors`

The gate writes `predict` frames to the probe's standard input and reads answers from its standard output; the
probe's first frame is `loaded` or `failed`. Every answer repeats the request's `token`, so that a process which ends
with status 0 in the middle is not taken for a success.

    gate to probe   {"kind": "predict", "token": str, "signature": str, "tensors": [...]}
                    {"kind": "concurrent", "token": str, "signature": str, "calls": [[first, last], ...],
                     "threads": int, "seconds": float, "tensors": [...]}    each call takes the rows first..last-1
                    {"kind": "stop", "token": str}
    probe to gate   {"kind": "loaded", "token": "", HELD, "signatures": {...}}
                    {"kind": "failed", "token": "", WHY}                    and then it ends
                    {"kind": "outputs", "token": str, HELD, "tensors": [...]}    for `concurrent`, the rows of all calls
                                                                            of all rounds, one below the other
                    {"kind": "progress", "token": str}                      more calls of `concurrent` are answered
                    {"kind": "error", "token": str, WHY, HELD}              a typed refusal; it lives on
                    {"kind": "stopped", "token": str, "seconds": float}     unloaded; and then it ends
    HELD            "seconds": float, "resident_bytes": int,
                    "state": {"open_files": int, "threads": int, "children": int, "changed": [words],
                              "addresses": [host:port that it called], "writes": [paths outside its folders],
                              "reads": [files nowhere near its own]}
    WHY             "code": str, "message": str, "raised": [names of the classes of what the model raised]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.tensors import Array, decode, describe, encode

FORMAT = "tidegate.probe/1"
MAX_HEAD = 1 << 24


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. `head` holds what the kind needs besides kind, token and tensors."""

    kind: str
    token: str = ""
    head: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Array] = field(default_factory=dict)


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Writes one frame and flushes."""
    head = {**frame.head, "format": FORMAT, "kind": frame.kind, "token": frame.token}
    head["tensors"] = describe(frame.tensors)
    text = json.dumps(head).encode()
    stream.write(len(text).to_bytes(4, "big") + text + b"".join(encode(array) for array in frame.tensors.values()))
    stream.flush()


def read_frame(stream: BinaryIO) -> Frame | None:
    """The next frame, or None at the end of the stream. InvalidInput when it ends or makes no sense in the middle,
    Unsupported for another format: whatever a process writes, nothing else is raised."""
    length = stream.read(4)
    if not length:
        return None
    size = int.from_bytes(length, "big")
    if len(length) < 4 or size > MAX_HEAD:
        raise InvalidInput(f"a probe frame starts with {length!r}: this is no probe stream")
    try:
        head = json.loads(_exactly(stream, size))
        check_format(head, kind="probe", version="1", where="a probe frame")
        tensors = {
            entry["name"]: decode(_exactly(stream, entry["bytes"]), entry["dtype"], tuple(entry["shape"]))
            for entry in head.pop("tensors")
        }
        return Frame(head.pop("kind"), head.pop("token"), head, tensors)
    except (*MALFORMED, MemoryError) as error:
        raise InvalidInput(
            f"a probe frame cannot be read ({type(error).__name__}: {error}): this is no probe stream"
        ) from error


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise InvalidInput(f"a probe frame ends after {len(data)} of {size} bytes: the process ended in the middle")
    return data
