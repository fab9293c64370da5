"""How much memory a table will take, told from its file without reading it into memory.

The table platform asks before it loads; the figures per row and value are bounds that were seen from above.
"""

from __future__ import annotations

from pathlib import Path

_ROW, _TEXT, _NUMBER, _LOOSE = 120, 50, 24, 200
_TIMES = 4
_CHUNK = 1 << 20


def table_bytes(path: Path) -> int:
    """An upper bound in bytes. Of a file that cannot be read, a multiple of its size: loading says what is wrong."""
    size = path.stat().st_size
    if path.suffix == ".parquet":
        return _TIMES * size + _parquet(path)
    return _TIMES * size + _LOOSE * _count(path, b":" if path.suffix == ".json" else b"\n")


def _parquet(path: Path) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        told = parquet.read_metadata(path)
    except (pa.ArrowException, OSError):
        return 0
    groups = [told.row_group(index) for index in range(told.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    values = sum(column.num_values * (_TEXT if column.physical_type == "BYTE_ARRAY" else _NUMBER) for column in columns)
    return int(_ROW * told.num_rows + values + _TIMES * sum(column.total_uncompressed_size for column in columns))


def _count(path: Path, mark: bytes) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(mark) for chunk in iter(lambda: file.read(_CHUNK), b""))
