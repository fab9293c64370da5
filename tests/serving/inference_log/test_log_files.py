"""What the engine logs can be read by anybody: Parquet in Hive layout, complete files, honest columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_blocks import ARRIVED, FakeBlock, microseconds

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported
from tidegate_serving.inference_log.reader import connect, scan
from tidegate_serving.inference_log.writer import LogWriter
from tidegate_serving.lifecycle.memory import resident_bytes

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.parquet"))


def rows_of(root: Path, columns: str) -> list[Any]:
    with connect(root) as connection:
        return list(connection.execute(f"SELECT {columns} FROM log ORDER BY request_id").fetchall())


def numbers(**changes: Any) -> FakeBlock:
    return FakeBlock({"x": np.array([1.0, 2.0, 3.0])}, {"y": np.array([10.0, 20.0, 30.0], "f4")}, **changes)


def test_a_block_is_one_file_in_its_folder(tmp_path: Path) -> None:
    LogWriter(tmp_path).write(numbers())
    (file,) = files(tmp_path)
    assert file.parent == tmp_path / "model=m" / "version=1" / "date=2026-03-01"
    assert pq.read_schema(file).metadata[b"format"] == b"tidegate.inference-log/1"
    assert not list(tmp_path.rglob(".*")), "nothing is left aside"


def test_a_large_block_is_encoded_in_groups_and_its_memory_given_back(tmp_path: Path) -> None:
    rows = np.random.default_rng(7).random((16, 1 << 20), "f4")
    writer = LogWriter(tmp_path)
    writer.write(numbers())
    before = resident_bytes()
    writer.write(FakeBlock({"x": rows}, {"y": rows[:, 0]}))
    assert resident_bytes() - before < 24 << 20
    largest = max(files(tmp_path), key=lambda file: file.stat().st_size)
    assert pq.ParquetFile(largest).num_row_groups >= 4


def test_columns_by_name_and_type(tmp_path: Path) -> None:
    block = numbers(request_id=["a", "b", "c"], role=[0, 1, 0], status=[0, 0, 3], latency_us=[7, 8, 9])
    LogWriter(tmp_path).write(block)
    schema = pq.read_schema(files(tmp_path)[0])
    moment = pa.timestamp("us", tz="UTC")
    expected = {
        "request_id": pa.string(),
        "row": pa.int32(),
        "role": pa.string(),
        "status": pa.int32(),
        "signature": pa.string(),
        "received_at": moment,
        "event_time": moment,
        "latency_us": pa.int64(),
        "in.x": pa.float64(),
        "out.y": pa.float32(),
    }
    assert {field.name: field.type for field in schema} == expected
    found = rows_of(
        tmp_path, 'request_id, role, status, latency_us, "in.x", "out.y", epoch_us(received_at), event_time, model'
    )
    assert [row[:6] for row in found] == [
        ("a", "primary", 0, 7, 1.0, 10.0),
        ("b", "shadow", 0, 8, 2.0, 20.0),
        ("c", "primary", 3, 9, 3.0, None),
    ]
    assert all(row[6:] == (microseconds(ARRIVED), None, "m") for row in found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_keep_their_type(tmp_path: Path, dtype: str) -> None:
    block = FakeBlock({"x": np.array([0, 1, 1], dtype)}, {"y": np.array([1, 0, 1], dtype)})
    LogWriter(tmp_path).write(block)
    table = pq.read_table(files(tmp_path)[0])
    assert table["in.x"].to_numpy().dtype == np.dtype(dtype)
    assert table["in.x"].to_pylist() == [0, 1, 1]


def test_half_floats_become_floats_that_every_reader_knows(tmp_path: Path) -> None:
    LogWriter(tmp_path).write(FakeBlock({"x": np.array([0.5, np.inf], "f2")}, {"y": np.array([1, 2], "f2")}))
    assert rows_of(tmp_path, '"in.x"') == [(0.5,), (np.inf,)]


def test_text_is_text_and_other_bytes_are_escaped(tmp_path: Path) -> None:
    texts = np.array(["é".encode(), b"", b"a\xffb\x00"], dtype=object)
    LogWriter(tmp_path).write(FakeBlock({"s": texts}, {"t": texts}))
    assert rows_of(tmp_path, '"in.s", "out.t"') == [("é", "é"), ("", ""), ("a\\xffb\x00", "a\\xffb\x00")]


def test_tensors_are_nested_lists(tmp_path: Path) -> None:
    matrix = np.arange(12, dtype="i4").reshape(2, 3, 2)
    empty = np.zeros((2, 0), "f4")
    LogWriter(tmp_path).write(FakeBlock({"m": matrix, "e": empty}, {"y": matrix[:, 0]}, status=[0, 2]))
    assert rows_of(tmp_path, '"in.m", "in.e", "out.y"') == [
        ([[0, 1], [2, 3], [4, 5]], [], [0, 1]),
        ([[6, 7], [8, 9], [10, 11]], [], None),
    ]


def test_the_event_decides_the_date(tmp_path: Path) -> None:
    days = [datetime(2013, 6, 1, 0, 0, 0, 500000, tzinfo=UTC), datetime(2013, 6, 30, 23, 59, 59, tzinfo=UTC)]
    seconds = np.array([days[0].timestamp(), days[1].timestamp(), np.nan, 1e300, -np.inf])
    writer = LogWriter(tmp_path)
    writer.describe("m", 1, "at")
    writer.write(FakeBlock({"at": seconds}, {"y": np.arange(5)}))
    assert rows_of(tmp_path, "date, epoch_us(event_time)") == [
        (date(2013, 6, 1), microseconds(days[0])),
        (date(2013, 6, 30), microseconds(days[1])),
        *[(date(2026, 3, 1), None)] * 3,
    ]
    assert len(files(tmp_path)) == 3


@pytest.mark.parametrize("at", [np.array([b"1370000000"], dtype=object), np.array([[1370000000]])])
def test_an_event_time_that_is_no_number_is_none(tmp_path: Path, at: Any) -> None:
    writer = LogWriter(tmp_path)
    writer.describe("m", 1, "at")
    writer.write(FakeBlock({"at": at}, {"y": np.arange(1)}))
    assert rows_of(tmp_path, "date, event_time") == [(date(2026, 3, 1), None)]


def test_whole_seconds_are_an_event_time_too(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.describe("m", 1, "at")
    writer.write(FakeBlock({"at": np.array([0, -86400], "i8")}, {"y": np.arange(2)}))
    assert rows_of(tmp_path, "date") == [(date(1970, 1, 1),), (date(1969, 12, 31),)]


def test_a_write_that_fails_leaves_nothing_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(table: Any, where: Path, **options: Any) -> None:
        where.write_bytes(b"PAR1")
        raise OSError(28, "No space left on device", str(where))

    writer = LogWriter(tmp_path)
    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match="No space left"):
        writer.write(numbers())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_is_seen_only_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LogWriter(tmp_path)
    writer.write(numbers())
    seen: list[int] = []
    real = pq.write_table

    def watched(table: Any, where: Path, **options: Any) -> None:
        real(table, where, **options)
        seen.append(len(rows_of(tmp_path, "1")))

    monkeypatch.setattr(pq, "write_table", watched)
    writer.write(numbers())
    assert (seen, len(rows_of(tmp_path, "1"))) == ([3], 6)


def test_versions_with_other_columns_are_read_together(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.write(numbers(request_id=["a", "b", "c"]))
    writer.write(FakeBlock({"z": np.array([5])}, {"y": np.array([1.5])}, version=2, request_id=["d"]))
    found = rows_of(tmp_path, '"in.x", "in.z", "out.y", version')
    assert found[-1] == (None, 5, 1.5, 2)
    assert found[0] == (1.0, None, 10.0, 1)


def test_scans_choose_model_and_version(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for version in (1, 2):
        writer.write(numbers(version=version))
    writer.write(numbers(model="7"))
    with connect(tmp_path) as connection:
        count = {
            text: connection.execute(f"SELECT count(*) FROM {text}").fetchone()[0]
            for text in (scan(tmp_path, "m"), scan(tmp_path, "m", 2), scan(tmp_path, "7"))
        }
        assert list(count.values()) == [6, 3, 3]
        assert connection.execute("SELECT DISTINCT typeof(model), typeof(date) FROM log").fetchall() == [
            ("VARCHAR", "DATE")
        ]
    with pytest.raises(NotFound, match="nothing is logged of m:3"):
        scan(tmp_path, "m", 3)
    with pytest.raises(InvalidInput, match="cannot be used"):
        scan(tmp_path, "../m")


def test_an_empty_log_is_an_empty_table(tmp_path: Path) -> None:
    assert rows_of(tmp_path, "request_id, received_at, version") == []
    with pytest.raises(NotFound, match="is no folder"):
        connect(tmp_path / "nowhere")


def test_a_later_format_is_refused_by_name(tmp_path: Path) -> None:
    LogWriter(tmp_path).write(numbers())
    (file,) = files(tmp_path)
    table = pq.read_table(file, partitioning=None)
    pq.write_table(table.replace_schema_metadata({"format": "tidegate.inference-log/2"}), file)
    with pytest.raises(Unsupported, match=r"tidegate\.inference-log/2"):
        connect(tmp_path)
    with pytest.raises(Unsupported, match=r"tidegate\.inference-log/2"):
        scan(tmp_path, "m")


def test_a_folder_with_a_quote_is_no_way_into_sql(tmp_path: Path) -> None:
    root = tmp_path / "o'; DROP TABLE log; --"
    LogWriter(root).write(numbers())
    assert len(rows_of(root, "1")) == 3
