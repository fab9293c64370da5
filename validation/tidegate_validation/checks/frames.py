"""The bytes in which a check's request is handed to the process that runs it: JSON, paths and Arrow tables.

8 bytes big-endian length of the JSON | JSON | tables, each 8 bytes of length and an Arrow IPC stream
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tidegate_serving.contract.errors import InvalidInput

_PATH, _TABLE = "tidegate.path", "tidegate.table"


def encode_request(request: Mapping[str, Any]) -> list[Any]:
    """The parts to write, one after another. InvalidInput for a value that cannot be handed over."""
    tables: list[Any] = []
    text = json.dumps(_plain(request, tables)).encode()
    parts: list[Any] = [len(text).to_bytes(8, "big"), text]
    for table in tables:
        data = _encoded(table)
        parts += [len(data).to_bytes(8, "big"), data]
    return parts


def write_parts(stream: BinaryIO, parts: Sequence[Any]) -> None:
    """Writes them and closes the stream; a reader that has ended already is no error here."""
    with contextlib.suppress(BrokenPipeError), stream:
        for part in parts:
            stream.write(part)


def read_request(stream: BinaryIO) -> dict[str, Any]:
    """What was written; reads the stream to its end."""
    document = json.loads(_part(stream))
    return dict(_restored(document, list(iter(lambda: _part(stream), b""))))


def _plain(value: Any, tables: list[Any]) -> Any:
    if isinstance(value, Path):
        return {_PATH: str(value.absolute())}
    if isinstance(value, Mapping):
        return {str(name): _plain(item, tables) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, tables) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "to_batches"):
        tables.append(value)
        return {_TABLE: len(tables) - 1}
    raise InvalidInput(f"a check cannot be given {type(value).__name__}: use what JSON holds, paths and Arrow tables")


def _restored(value: Any, tables: list[bytes]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_PATH}:
            return Path(value[_PATH])
        if value.keys() == {_TABLE}:
            return _decoded(tables[value[_TABLE]])
        return {name: _restored(item, tables) for name, item in value.items()}
    return [_restored(item, tables) for item in value] if isinstance(value, list) else value


def _encoded(table: Any) -> Any:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


def _decoded(data: bytes) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()


def _part(stream: BinaryIO) -> bytes:
    """The next part; empty at the end of the stream, since no part is empty."""
    return stream.read(int.from_bytes(stream.read(8), "big"))
