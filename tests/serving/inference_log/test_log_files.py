"""What the engine logs can be read by anybody: Parquet in Hive layout, complete files, honest columns.

A data plane of the real extension writes these logs; its model answers what the test wants.
"""

from __future__ import annotations

import hmac
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.native.running import Running, log_all, publish, running
from tests.support.eventually import eventually
from tests.support.log_blocks import FakeBlock, microseconds, write_log
from tidegate_native import Batch, Publish, Result, SetLabels, SetLog, SetShadow, Signature, TensorSpec

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported
from tidegate_serving.inference_log.reader import connect, scan, unlogged_columns
from tidegate_serving.lifecycle.memory import resident_bytes

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
DAY_RECEIVED = "CAST(received_at AT TIME ZONE 'UTC' AS DATE)"
Arrays = dict[str, Any]


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.parquet"))


def rows_of(root: Path, columns: str, order: str = "request_id, row") -> list[Any]:
    with connect(root) as connection:
        return list(connection.execute(f"SELECT {columns} FROM log ORDER BY {order}").fetchall())


def specs(arrays: Arrays, free: Sequence[int] = ()) -> list[TensorSpec]:
    """Of arrays whose first axis is the batch; `free` are other axes that may have any size."""

    def spec(name: str, array: Any) -> TensorSpec:
        shape = [-1 if axis == 0 or axis in free else size for axis, size in enumerate(array.shape)]
        return TensorSpec(name=name, dtype="string" if array.dtype.kind == "O" else array.dtype.name, shape=shape)

    return [spec(name, array) for name, array in arrays.items()]


def made(inputs: Arrays, outputs: Arrays, free: Sequence[int] = (), event_time: str | None = None) -> Signature:
    return Signature(
        name="serving_default",
        method_name="",
        inputs=specs(inputs, free),
        outputs=specs(outputs, free),
        event_time=event_time,
    )


def write(root: Path, inputs: Arrays, outputs: Arrays, *, event_time: str | None = None, **settings: Any) -> None:
    """One request, answered with `outputs`, in a log below `root`."""
    model = publish(lambda _: outputs, made=made(inputs, outputs, event_time=event_time))
    with running(model, log_all(), log_path=root, **settings) as plane:
        plane.plane.predict("m", inputs, request_id="r")


def numbers(root: Path) -> None:
    write(root, {"x": np.array([1.0, 2.0, 3.0])}, {"y": np.array([10.0, 20.0, 30.0], "f4")})


SALT = b"0123456789abcdef"


def hashed(value: bytes) -> str:
    return hmac.new(SALT, value, "sha256").hexdigest()[:32]


def test_columns_are_hashed_or_left_out_before_anything_is_written(tmp_path: Path) -> None:
    """Lists keep their form, equal values stay equal, and what was asked is nowhere in the files."""
    inputs = {
        "mail": np.array([b"ada@example.org", b"bob@example.org", b"ada@example.org"], object),
        "ids": np.array([[41, 7], [8, 41], [9, 9]]),
        "score": np.array([0.1, 1e21, -2.0], "f4"),
        "note": np.array([b"private words"] * 3, object),
        "x": np.array([1.0, 2.0, 3.0]),
    }
    rules = {"in.mail": "hash", "in.ids": "hash", "in.score": "hash", "in.note": "omit", "out.y": "omit"}
    write(tmp_path, inputs, {"y": np.ones(3), "z": np.ones(3)}, log_columns=rules, log_salt=SALT)
    (file,) = files(tmp_path)
    table = pq.read_table(file)
    assert [name for name in table.column_names if "." in name] == ["in.mail", "in.ids", "in.score", "in.x", "out.z"]
    ada, bob = hashed(b"ada@example.org"), hashed(b"bob@example.org")
    assert table["in.mail"].to_pylist() == [ada, bob, ada]
    assert table["in.ids"].to_pylist() == [[hashed(str(one).encode()) for one in row] for row in inputs["ids"]]
    assert table["in.score"].to_pylist() == [hashed(one) for one in (b"0.1", b"1000000000000000000000", b"-2")]
    assert not any(word in file.read_bytes() for word in (b"example", b"private"))
    assert unlogged_columns(tmp_path, "m") == rules


def test_a_rule_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"log column 'in\.x' is to be 'drop': use hash or omit"):
        write(tmp_path, {"x": np.ones(1)}, {"y": np.ones(1)}, log_columns={"in.x": "drop"})


def count(plane: Running, what: str) -> float:
    return plane.sample(f"tidegate_log_{what}_rows_total", role="primary")


def test_a_block_is_one_file_in_its_folder(tmp_path: Path) -> None:
    numbers(tmp_path)
    (file,) = files(tmp_path)
    ((day,),) = rows_of(tmp_path, f"DISTINCT {DAY_RECEIVED}", "1")
    assert file.parent == tmp_path / "model=m" / "version=1" / f"date={day.isoformat()}"
    assert pq.read_schema(file).metadata[b"format"] == b"tidegate.inference-log/1"
    assert not list(tmp_path.rglob(".*")), "nothing is left aside"


def test_a_large_block_is_encoded_in_groups_and_its_memory_given_back(tmp_path: Path) -> None:
    rows = np.random.default_rng(7).random((16, 1 << 20), "f4")
    model = publish(lambda batch: {"y": batch.inputs["x"][:, 0]}, made=made({"x": rows}, {"y": rows[:, 0]}))
    with running(model, log_all(), log_path=tmp_path) as plane:
        plane.plane.predict("m", {"x": rows[:1]})
        eventually(lambda: count(plane, "written") == 1)
        before = resident_bytes()
        plane.plane.predict("m", {"x": rows})
        eventually(lambda: count(plane, "written") == 17)
        eventually(lambda: resident_bytes() - before < 24 << 20)
    largest = max(files(tmp_path), key=lambda file: file.stat().st_size)
    assert pq.ParquetFile(largest).num_row_groups >= 4
    assert np.array_equal(np.array(pq.read_table(largest, partitioning=None)["in.x"].to_pylist(), "f4"), rows)


def test_columns_by_name_and_type(tmp_path: Path) -> None:
    def model(batch: Batch) -> Any:
        failed = {row: (3, "no") for row, x in enumerate(batch.inputs["x"]) if x == 3.0}
        return Result({"y": batch.inputs["x"].astype("f4") * 10}, failed)

    one = made({"x": np.zeros(1)}, {"y": np.zeros(1, "f4")})
    both = [publish(model, version, made=one) for version in (1, 2)]
    started = datetime.now(UTC)
    with running(*both, SetLabels(model="m", labels={"stable": 1}), log_all(), log_path=tmp_path) as plane:
        plane.plane.apply([SetShadow(model="m", version=2, fraction=1.0)])
        plane.plane.predict("m", {"x": np.array([1.0, 2.0])}, request_id="a")
        plane.predict([3.0], x_request_id="b")
    schema, about = pq.read_schema(files(tmp_path)[0]), pq.read_metadata(files(tmp_path)[0]).row_group(0)
    assert about.column(schema.names.index("signature")).statistics.max == "serving_default"
    moment = pa.timestamp("us", tz="UTC")
    expected = {
        "request_id": pa.string(),
        "trace_id": pa.string(),
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
    fake = pq.read_schema(write_log(tmp_path / "fake", FakeBlock({"x": np.zeros(1)}, {"y": np.zeros(1, "f4")})))
    assert {field.name: field.type for field in fake} == expected, "logs that tests make up are as real ones"
    found = rows_of(
        tmp_path,
        'version, request_id, row, role, status, signature, "in.x", "out.y", event_time, model, '
        "epoch_us(received_at), latency_us",
        "version, request_id, row",
    )
    assert [row[:10] for row in found] == [
        row
        for version, role in ((1, "primary"), (2, "shadow"))
        for row in (
            (version, "a", 0, role, 0, "serving_default", 1.0, 10.0, None, "m"),
            (version, "a", 1, role, 0, "serving_default", 2.0, 20.0, None, "m"),
            (version, "b", 0, role, 3, "serving_default", 3.0, None, None, "m"),
        )
    ]
    ended = datetime.now(UTC)
    assert all(microseconds(started) <= row[10] <= microseconds(ended) and 0 <= row[11] < 60e6 for row in found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_keep_their_type(tmp_path: Path, dtype: str) -> None:
    most = np.array([True]) if dtype == "bool" else np.array([_most(dtype)], dtype)
    x = np.concatenate([np.array([0, 1, 1], dtype), most])
    write(tmp_path, {"x": x}, {"y": x[::-1]})
    table = pq.read_table(files(tmp_path)[0], partitioning=None)
    for column, values in (("in.x", x), ("out.y", x[::-1])):
        assert table[column].to_numpy().dtype == np.dtype(dtype)
        assert table[column].to_pylist() == values.tolist()


def _most(dtype: str) -> Any:
    return np.finfo(dtype).max if dtype.startswith("float") else np.iinfo(dtype).max


def test_half_floats_become_floats_that_every_reader_knows(tmp_path: Path) -> None:
    write(tmp_path, {"x": np.array([0.5, np.inf], "f2")}, {"y": np.array([1, 2], "f2")})
    assert rows_of(tmp_path, '"in.x", "out.y", typeof("in.x")') == [(0.5, 1.0, "FLOAT"), (np.inf, 2.0, "FLOAT")]


def test_text_is_text_and_other_bytes_are_escaped(tmp_path: Path) -> None:
    texts = np.array(["é".encode(), b"", b"a\xffb\x00"], dtype=object)
    write(tmp_path, {"s": texts}, {"t": texts})
    assert rows_of(tmp_path, '"in.s", "out.t"') == [("é", "é"), ("", ""), ("a\\xffb\x00", "a\\xffb\x00")]


def test_lists_of_text_are_lists(tmp_path: Path) -> None:
    texts = np.array([["é".encode(), b"b"], [b"", b"d"]], dtype=object)
    write(tmp_path, {"s": texts}, {"t": texts})
    assert rows_of(tmp_path, '"in.s", "out.t"') == [(["é", "b"],) * 2, (["", "d"],) * 2]


def test_tensors_are_nested_lists(tmp_path: Path) -> None:
    matrix = np.arange(24, dtype="i4").reshape(2, 3, 2, 2)
    empty = np.zeros((2, 0), "f4")
    write(tmp_path, {"m": matrix, "e": empty}, {"y": matrix[:, 0]})
    assert rows_of(tmp_path, '"in.m", "in.e", "out.y"') == [(row.tolist(), [], row[0].tolist()) for row in matrix]


def test_rows_of_different_lengths_are_one_file(tmp_path: Path) -> None:
    def model(batch: Batch) -> Any:
        if (batch.inputs["x"] < 0).any():
            raise ValueError("negative")
        return {"y": batch.inputs["x"][:, :, :1], "s": batch.inputs["s"]}

    x, s = np.zeros((1, 1, 1), "f4"), np.array([[b"a"]], dtype=object)
    one = made({"x": x, "s": s}, {"y": x, "s": s}, free=(1, 2))
    sent = [
        (np.arange(size * 2, dtype="f4").reshape(1, size, 2), np.array([[b"t"] * size], dtype=object))
        for size in (2, 5, 0, 1, 1)
    ]
    with running(publish(model, made=one), log_all(), log_path=tmp_path, log_block_interval_ms=3_600_000) as plane:
        for at, (numbers, texts) in enumerate(sent):
            plane.plane.predict("m", {"x": numbers, "s": texts}, request_id=f"r{at}")
        plane.predict([{"x": [[-1, 2, 3]], "s": ["a", "b"]}], x_request_id="z")
    assert len(files(tmp_path)) == 1
    answered = [
        (x[0].tolist(), s[0].astype(str).tolist(), x[0, :, :1].tolist(), s[0].astype(str).tolist()) for x, s in sent
    ]
    assert rows_of(tmp_path, '"in.x", "in.s", "out.y", "out.s"') == [
        *answered,
        ([[-1.0, 2.0, 3.0]], ["a", "b"], None, None),
    ]


def test_the_event_decides_the_date(tmp_path: Path) -> None:
    days = [datetime(2013, 6, 1, 0, 0, 0, 500000, tzinfo=UTC), datetime(2013, 6, 30, 23, 59, 59, tzinfo=UTC)]
    seconds = np.array([days[0].timestamp(), days[1].timestamp(), np.nan, 1e300, -np.inf, days[0].timestamp()])
    write(tmp_path, {"at": seconds}, {"y": np.arange(6)}, event_time="at")
    assert rows_of(tmp_path, f'date, date = {DAY_RECEIVED}, epoch_us(event_time), "out.y"') == [
        (date(2013, 6, 1), False, microseconds(days[0]), 0),
        (date(2013, 6, 30), False, microseconds(days[1]), 1),
        *[(ANY, True, None, y) for y in (2, 3, 4)],
        (date(2013, 6, 1), False, microseconds(days[0]), 5),
    ]
    assert len(files(tmp_path)) == 3


@pytest.mark.parametrize("at", [np.array([b"1370000000"], dtype=object), np.array([[1370000000]])])
def test_an_event_time_that_is_no_number_is_none(tmp_path: Path, at: Any) -> None:
    write(tmp_path, {"at": at}, {"y": np.arange(1)}, event_time="at")
    assert rows_of(tmp_path, f"date = {DAY_RECEIVED}, event_time") == [(True, None)]


@pytest.mark.parametrize("dtype", ["i8", "i4", "f8", "f4"])
def test_whole_seconds_are_an_event_time_too(tmp_path: Path, dtype: str) -> None:
    write(tmp_path, {"at": np.array([0, -86400], dtype)}, {"y": np.arange(2)}, event_time="at")
    assert rows_of(tmp_path, "date") == [(date(1970, 1, 1),), (date(1969, 12, 31),)]


FULL = """
import resource, sys
import numpy as np
from tests.native.running import half_plus_two, log_all, publish, running

with running(publish(half_plus_two), log_all(), log_path=sys.argv[1]) as plane:
    told = plane.told
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
    plane.plane.predict("m", {"x": np.ones(3, "f4")})
stats = plane.plane.stats()
print(*(stats[f'tidegate_log_{what}_rows_total{{role="primary"}}'] for what in ("written", "dropped")), *told)
"""


def test_a_write_that_fails_half_way_leaves_nothing_to_be_read_and_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.startswith("0.0 3.0 [Errno 27] File too large: ")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_log_that_cannot_be_written_is_told_until_it_can(tmp_path: Path) -> None:
    (tmp_path / "model=m").write_text("in the way")
    with running(publish(lambda batch: {"y": batch.inputs["x"]}), log_all(), log_path=tmp_path) as plane:
        for _ in range(2):
            plane.predict([1.0])
        eventually(lambda: count(plane, "dropped") == 2)
        assert {type(error) for error in plane.told} <= {FileExistsError, NotADirectoryError}
        (tmp_path / "model=m").unlink()
        for rows in (1, 2):
            plane.predict([1.0])
            eventually(lambda rows=rows: count(plane, "written") == rows)  # type: ignore[misc]
        assert [error for error in plane.told if error is None] == [None], "once, and not for each block"
    assert len(rows_of(tmp_path, "1")) == 2


KILLED = """
import sys
import numpy as np
from tests.native.running import log_all, publish, running, signature

wide = signature([("x", "float32", (-1, 1000))], [("y", "float32", (-1, 1000))])
model = publish(lambda batch: {"y": batch.inputs["x"]}, made=wide)
with running(model, log_all(), log_path=sys.argv[1], log_block_rows=16, log_block_interval_ms=1) as plane:
    print("running", flush=True)
    while True:
        plane.plane.predict("m", {"x": np.ones((16, 1000), "f4")})
"""


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.1])
def test_a_kill_in_the_middle_of_writing_leaves_only_whole_files_to_be_read(tmp_path: Path, seconds: float) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)], stdout=subprocess.PIPE
    ) as writing:
        assert writing.stdout is not None
        assert writing.stdout.readline() == b"running\n"
        eventually(lambda: bool(files(tmp_path)))
        time.sleep(seconds)  # any moment of the writing will do
        os.kill(writing.pid, signal.SIGKILL)
    found = rows_of(tmp_path, 'list_sum("in.x"), list_sum("out.y")', "1")
    assert set(found) == {(1000.0, 1000.0)}
    assert len(found) % 16 == 0


def test_a_file_is_seen_only_when_it_is_complete(tmp_path: Path) -> None:
    rows = np.random.default_rng(3).random((64, 1000), "f4")
    model = publish(lambda batch: {"y": batch.inputs["x"]}, made=made({"x": rows}, {"y": rows}))
    limits: dict[str, Any] = {"log_block_rows": 64, "log_block_interval_ms": 1}
    with running(model, log_all(), log_path=tmp_path, **limits) as plane:
        asked = 0
        while len(files(tmp_path)) < 30:
            plane.plane.predict("m", {"x": rows})
            asked += 64
            for file in files(tmp_path):
                assert pq.read_metadata(file).num_rows % 64 == 0
        eventually(lambda: count(plane, "written") + count(plane, "dropped") == asked)
        written = count(plane, "written")
    assert len(rows_of(tmp_path, "1")) == written >= 30 * 64


def test_versions_with_other_columns_are_read_together(tmp_path: Path) -> None:
    x, z = np.array([1.0]), np.array([5])
    answers: list[tuple[Publish, Arrays]] = [
        (publish(lambda _: {"y": np.array([10.0], "f4")}, 1, made=made({"x": x}, {"y": np.zeros(1, "f4")})), {"x": x}),
        (publish(lambda _: {"y": np.array([1.5])}, 2, made=made({"z": z}, {"y": x})), {"z": z}),
    ]
    with running(*(model for model, _ in answers), log_all(), log_path=tmp_path) as plane:
        for version, (_, inputs) in enumerate(answers, 1):
            plane.plane.predict("m", inputs, version=version, request_id=str(version))
    assert rows_of(tmp_path, '"in.x", "in.z", "out.y", version') == [(1.0, None, 10.0, 1), (None, 5, 1.5, 2)]


def test_scans_choose_model_and_version(tmp_path: Path) -> None:
    models = [
        publish(lambda batch: {"y": batch.inputs["x"]}, version, name)
        for name, version in (("m", 1), ("m", 2), ("7", 1))
    ]
    logs = [SetLog(model=name, sampling_rate=1.0) for name in ("m", "7")]
    with running(*models, *logs, log_path=tmp_path) as plane:
        for name, version in (("m", 1), ("m", 2), ("7", 1)):
            plane.plane.predict(name, {"x": np.ones(3, "f4")}, version=version)
    with connect(tmp_path) as connection:
        found = [
            connection.execute(f"SELECT count(*) FROM {text}").fetchone()[0]
            for text in (scan(tmp_path, "m"), scan(tmp_path, "m", 2), scan(tmp_path, "7"))
        ]
        assert found == [6, 3, 3]
        assert connection.execute("SELECT DISTINCT typeof(model), typeof(date) FROM log").fetchall() == [
            ("VARCHAR", "DATE")
        ]
    with pytest.raises(NotFound, match="nothing is logged of m:3"):
        scan(tmp_path, "m", 3)
    with pytest.raises(NotFound, match=r"inference log .*typo is no folder: mend the path"):
        scan(tmp_path / "typo", "m", 3)
    with pytest.raises(InvalidInput, match="cannot be used"):
        scan(tmp_path, "../m")


def test_an_empty_log_is_an_empty_table(tmp_path: Path) -> None:
    assert rows_of(tmp_path, "request_id, received_at, version") == []
    with pytest.raises(NotFound, match="is no folder"):
        connect(tmp_path / "nowhere")


def test_a_later_format_is_refused_by_name_and_what_is_no_parquet_by_place(tmp_path: Path) -> None:
    numbers(tmp_path)
    (file,) = files(tmp_path)
    table = pq.read_table(file, partitioning=None)
    pq.write_table(table.replace_schema_metadata({"format": "tidegate.inference-log/2"}), file)
    with pytest.raises(Unsupported, match=r"tidegate\.inference-log/2"):
        connect(tmp_path)
    with pytest.raises(Unsupported, match=r"tidegate\.inference-log/2"):
        scan(tmp_path, "m")
    file.write_bytes(b"torn")
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        scan(tmp_path, "m")


def test_a_folder_with_a_quote_is_no_way_into_sql(tmp_path: Path) -> None:
    root = tmp_path / "o'; DROP TABLE log; --"
    numbers(root)
    assert len(rows_of(root, "1")) == 3
