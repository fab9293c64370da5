"""Reads tags and SignatureDefs off a SavedModel without TensorFlow, stepping over its graph, however large.

One in text form is read whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.messages import message

FILE = "saved_model.pb"
TEXT_FILE = "saved_model.pbtxt"
_META_GRAPHS, _META_INFO, _SIGNATURES = 2, 1, 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_meta_graph(directory: Path, tags: frozenset[str]) -> Any:
    """A `MetaGraphDef` with tags and signatures alone.

    NotFound where there is no SavedModel or no graph with exactly these tags, InvalidInput for bytes that are cut short
    or are something else.
    """
    path, text = directory / FILE, directory / TEXT_FILE
    if path.is_file():
        found = list(_meta_graphs(path))
    elif text.is_file():
        path, found = text, _meta_graphs_of_text(text)
    else:
        raise NotFound(f"{directory} has no {FILE}: it is no SavedModel")
    for meta_graph in found:
        if frozenset(meta_graph.meta_info_def.tags) == tags:
            return meta_graph
    offered = "; ".join(", ".join(sorted(graph.meta_info_def.tags)) or "none" for graph in found) or "no graph at all"
    raise NotFound(
        f"{path} has no meta graph with the tags {', '.join(sorted(tags))} (it has: {offered}): "
        "export one, or set 'tags' for platform tensorflow"
    )


def _meta_graphs_of_text(path: Path) -> list[Any]:
    from google.protobuf import text_format

    try:
        saved = message("tensorflow.SavedModel")()
        text_format.Parse(path.read_text(), saved, descriptor_pool=saved.DESCRIPTOR.file.pool)
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise InvalidInput(f"{path} is no SavedModel in text form ({error}): export the model again") from error
    return list(saved.meta_graphs)


def _meta_graphs(path: Path) -> Iterator[Any]:
    from google.protobuf.message import DecodeError

    with path.open("rb") as file:
        data = _Bytes(file.fileno())
        if len(data) == 0:
            raise InvalidInput(f"{path} is empty: export the model again")
        try:
            for number, begin, end in _fields(data, 0, len(data)):
                if number == _META_GRAPHS:
                    yield message("tensorflow.MetaGraphDef").FromString(_slim(data, begin, end))
        except (IndexError, ValueError, DecodeError) as error:
            raise InvalidInput(f"{path} is no SavedModel, or cut short ({error}): export the model again") from error


class _Bytes:
    """Those of a file, read where they are asked for. They are not mapped: a process dies of a map whose file is cut
    short meanwhile. IndexError beyond the end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __len__(self) -> int:
        return os.fstat(self._descriptor).st_size

    def one(self, position: int) -> int:
        """A byte."""
        return self.several(position, position + 1)[0]

    def several(self, start: int, stop: int) -> bytes:
        """From one position up to another."""
        found = bytearray()
        while more := stop - start - len(found):
            piece = os.pread(self._descriptor, more, start + len(found))
            if not piece:
                raise IndexError(f"the file ends before byte {stop}")
            found += piece
        return bytes(found)


def _slim(data: _Bytes, begin: int, end: int) -> bytes:
    """The bytes of a MetaGraphDef without graph, collections and assets."""
    kept = [
        bytes([number << 3 | _BYTES]) + _varint(stop - start) + data.several(start, stop)
        for number, start, stop in _fields(data, begin, end)
        if number in (_META_INFO, _SIGNATURES)
    ]
    return b"".join(kept)


def _fields(data: _Bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end of each field's value in a message's bytes. ValueError where they do not add up."""
    while position < end:
        key, position = _read_varint(data, position)
        kind = key & 7
        if kind == _VARINT:
            _, stop = _read_varint(data, position)
        elif kind == _BYTES:
            length, position = _read_varint(data, position)
            stop = position + length
        elif kind in (_FIXED32, _FIXED64):
            stop = position + (4 if kind == _FIXED32 else 8)
        else:
            raise ValueError(f"unknown wire type {kind} at byte {position}")
        if stop > end or key >> 3 == 0:
            raise ValueError(f"field {key >> 3} at byte {position} does not fit into {end} bytes")
        yield key >> 3, position, stop
        position = stop


def _read_varint(data: _Bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data.one(position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError(f"a number at byte {position} does not end")


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
