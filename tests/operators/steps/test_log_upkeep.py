"""The log's long life: fewer files, old days gone, rows erased, whatever is killed, written or read meanwhile."""

from __future__ import annotations

import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.kept_log import DAY, compacted, files_of, folder_of, ids_of, ids_of_files, write

from tidegate_operators.steps.log_upkeep import compact_log, erase_from_log, retain_log
from tidegate_serving.contract import log_record
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable
from tidegate_serving.files import lock
from tidegate_serving.inference_log.reader import connect, unlogged_columns


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two days of ten small files, of three rows each."""
    for day in (DAY, "2026-03-02"):
        for number in range(10):
            write(folder_of(tmp_path, day), [f"{day}-{number}-{row}" for row in range(3)])
    return tmp_path


def test_a_day_of_many_files_becomes_one_with_the_same_rows(root: Path) -> None:
    before = ids_of(root)
    done = compacted(root)
    assert (done.folders, done.files_before, done.files_after, done.skipped) == (2, 20, 2, ())
    assert ids_of(root) == before
    assert [path.name for path in root.rglob(".date=*")] == []
    (file,) = files_of(folder_of(root))
    assert pq.read_schema(file).metadata[b"format"] == log_record.FORMAT.encode()
    assert sorted(pd.read_parquet(root)["request_id"]) == before, "pandas reads the folder as it is"
    assert compacted(root).folders == 0, "a second run finds nothing to do"


def test_columns_that_some_files_lack_are_null_there(tmp_path: Path) -> None:
    write(folder_of(tmp_path), ["a"])
    write(folder_of(tmp_path), ["b"], **{"in.y": ["new"]})
    compacted(tmp_path, least_files=2)
    with connect(tmp_path) as connection:
        rows = connection.execute('SELECT request_id, "in.y" FROM log ORDER BY 1').fetchall()
    assert rows == [("a", None), ("b", "new")]


def required(path: Path) -> None:
    """The file again with columns that are never null, as the engine writes inputs."""
    table = pq.read_table(path)
    fields = [field.with_nullable(nullable=False) for field in table.schema]
    pq.write_table(table.cast(pa.schema(fields, table.schema.metadata)), path)


def test_files_of_several_signatures_become_one(tmp_path: Path) -> None:
    required(write(folder_of(tmp_path), ["a"]))
    required(write(folder_of(tmp_path), ["b"], **{"in.text": ["hi"]}))
    assert compacted(tmp_path, least_files=2).skipped == ()
    (file,) = files_of(folder_of(tmp_path))
    rows = pq.read_table(file).select(["request_id", "in.text"]).to_pylist()
    assert sorted(rows, key=lambda row: str(row["request_id"])) == [
        {"request_id": "a", "in.text": None},
        {"request_id": "b", "in.text": "hi"},
    ]
    assert not pq.read_schema(file).field("in.x").nullable, "every file has it"


def test_a_file_that_is_damaged_inside_leaves_its_day_as_it_is(tmp_path: Path) -> None:
    broken = write(folder_of(tmp_path), ["a" * 1000])
    write(folder_of(tmp_path), ["b"])
    content = bytearray(broken.read_bytes())
    content[4:60] = bytes(56)
    broken.write_bytes(content)
    (skipped,) = compacted(tmp_path, least_files=2).skipped
    assert f"{broken.name} cannot be read as Parquet" in skipped.reason
    assert len(files_of(folder_of(tmp_path))) == 2


def test_what_was_hashed_in_some_files_is_known_of_the_merged_one(tmp_path: Path) -> None:
    for rule in ("", "hash"):
        path = write(folder_of(tmp_path), ["a"])
        table = pq.read_table(path)
        rules = {f"{log_record.RULE_KEY}in.x": rule} if rule else {}
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **rules}), path)
    compacted(tmp_path, least_files=2)
    assert unlogged_columns(tmp_path, "m") == {"in.x": "hash"}


def test_large_files_stay_and_files_are_cut_at_the_target(tmp_path: Path) -> None:
    large = write(folder_of(tmp_path), [f"{number:08d}-{uuid.uuid4().hex}" for number in range(5000)])
    for number in range(4):
        write(folder_of(tmp_path), [f"s{number}"])
    size = large.stat().st_size
    compacted(tmp_path, least_files=2, target_bytes=size)
    assert len(files_of(folder_of(tmp_path))) == 2
    assert large in files_of(folder_of(tmp_path))


def test_a_day_that_still_gets_rows_is_left_alone(root: Path) -> None:
    os.utime(files_of(folder_of(root))[0], (0, 0))
    assert compact_log(root, settled=3600, grace=0).folders == 0
    for file in files_of(folder_of(root)):
        os.utime(file, (0, 0))
    assert compact_log(root, settled=3600, grace=0).folders == 1


def test_a_broken_file_leaves_its_day_as_it_is(root: Path) -> None:
    (folder_of(root) / "1000-broken.parquet").write_bytes(b"PAR1 not at all")
    before = files_of(folder_of(root))
    done = compacted(root)
    assert done.folders == 1
    assert [one.folder for one in done.skipped] == [folder_of(root)]
    assert "1000-broken.parquet cannot be read" in done.skipped[0].reason
    assert files_of(folder_of(root)) == before
    assert not list(root.rglob(".date=*"))


def test_files_whose_types_do_not_go_together_are_merged_with_those_they_go_with(tmp_path: Path) -> None:
    """As of two signatures that call inputs of two types alike."""
    for one in "ab":
        write(folder_of(tmp_path), [f"text {one}"], **{"in.y": ["text"]})
        write(folder_of(tmp_path), [f"number {one}"], **{"in.y": [1.0]})
    done = compacted(tmp_path, least_files=2)
    assert (done.skipped, done.files_before, done.files_after) == ((), 4, 2)
    types = {str(pq.read_schema(file).field("in.y").type) for file in files_of(folder_of(tmp_path))}
    assert types == {"string", "double"}
    assert ids_of_files(tmp_path) == ["number a", "number b", "text a", "text b"]


def test_a_log_of_several_engines_is_kept_too(tmp_path: Path) -> None:
    for engine in ("one", "two"):
        for number in range(3):
            write(folder_of(tmp_path / engine), [f"{engine}{number}"])
    assert compacted(tmp_path, least_files=2).folders == 2
    assert len(ids_of(tmp_path)) == 6


def test_old_days_of_an_engine_that_is_gone_go_with_those_of_others(tmp_path: Path) -> None:
    for engine, day in (("here", DAY), ("here", "2026-03-02"), ("gone", DAY)):
        write(folder_of(tmp_path / engine, day), [f"{engine}-{day}"])
    removed = retain_log(tmp_path, days=1, today=date(2026, 3, 2)).removed
    assert {path.relative_to(tmp_path).parts[0] for path in removed} == {"here", "gone"}
    assert ids_of(tmp_path) == ["here-2026-03-02"]


def test_one_process_at_a_time(root: Path) -> None:
    held = lock(root / ".upkeep.lock")
    assert held is not None
    with held, pytest.raises(Unavailable, match="another process keeps the log"):
        compacted(root)
    with pytest.raises(NotFound):
        compact_log(root / "missing")


def test_old_days_go(root: Path) -> None:
    again = retain_log(root, days=3, today=date(2026, 3, 3), dry_run=True)
    assert again.removed == ()
    shown = retain_log(root, days=2, today=date(2026, 3, 3), dry_run=True)
    assert shown.removed == (folder_of(root),)
    assert folder_of(root).is_dir()
    done = retain_log(root, days=2, today=date(2026, 3, 3))
    assert done.removed == shown.removed
    assert {one[:10] for one in ids_of(root)} == {"2026-03-02"}


def test_the_oldest_days_go_until_the_rest_is_small_enough(root: Path) -> None:
    day = sum(file.stat().st_size for file in files_of(folder_of(root)))
    done = retain_log(root, most_bytes=day + 10, today=date(2026, 3, 3))
    assert done.removed == (folder_of(root),)
    assert done.left_bytes <= day + 10
    assert retain_log(root, most_bytes=0, today=date(2026, 3, 2)).removed == (), "today stays"
    with pytest.raises(InvalidInput, match="nothing says what goes"):
        retain_log(root)
    with pytest.raises(InvalidInput, match="days is 0"):
        retain_log(root, days=0)


def test_all_files_of_a_day_count_so_that_prediction_logs_go_too(tmp_path: Path) -> None:
    for day in (DAY, "2026-03-02"):
        folder_of(tmp_path, day).mkdir(parents=True)
        (folder_of(tmp_path, day) / "1000-a.tfrecord").write_bytes(b"x" * 1000)
    done = retain_log(tmp_path, most_bytes=1500, today=date(2026, 3, 3))
    assert (done.removed, done.freed_bytes, done.left_bytes) == ((folder_of(tmp_path),), 1000, 1000)


def test_a_file_that_its_engine_renames_while_sizes_are_counted_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = folder_of(tmp_path) / ".1000-b.parquet.0123abcd.aside"
    written.parent.mkdir(parents=True)
    written.write_bytes(b"x" * 1000)
    (written.parent / "1000-a.parquet").write_bytes(b"x" * 1000)
    lstat = Path.lstat

    def renamed_first(path: Path) -> os.stat_result:
        if path == written:
            written.rename(written.with_name("1000-b.parquet"))
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", renamed_first)
    done = retain_log(tmp_path, most_bytes=5000, today=date(2026, 3, 3))
    assert (done.removed, done.left_bytes) == ((), 1000)


def test_what_a_killed_engine_left_unfinished_is_told_at_first_and_removed_after_an_hour(root: Path) -> None:
    left = folder_of(root) / ".1000-b.parquet.0123abcd.aside"
    left.write_bytes(b"8812")
    (skipped,) = erase_from_log(root, requests=["8812"], grace=0).skipped
    assert skipped.folder == folder_of(root)
    assert skipped.reason.startswith(f"{left.name} is being written, or its engine was killed: erase again in an hour")
    os.utime(left, (0, 0))
    assert erase_from_log(root, requests=["8812"], grace=0).skipped == ()
    assert not left.exists()


def test_a_day_of_prediction_logs_is_told_where_rows_are_erased(root: Path) -> None:
    (folder_of(root) / "1000-a.tfrecord").write_bytes(b"8812")
    done = erase_from_log(root, requests=[f"{DAY}-3-1"], grace=0)
    assert done.rows == 1
    assert [(one.folder, one.reason.partition(":")[0]) for one in done.skipped] == [
        (folder_of(root), "it holds PredictionLogs, of which no rows can be erased")
    ]


@pytest.mark.parametrize("merged", [False, True])
def test_rows_are_erased_by_request(root: Path, merged: bool) -> None:
    if merged:
        compacted(root)
    before = ids_of(root)
    untouched = files_of(folder_of(root, "2026-03-02"))
    gone = [f"{DAY}-3-1", f"{DAY}-7-0"]
    done = erase_from_log(root, requests=gone, grace=0)
    assert (done.rows, done.files) == (2, 1 if merged else 2)
    assert ids_of(root) == [one for one in before if one not in gone]
    assert files_of(folder_of(root, "2026-03-02")) == untouched
    assert not any(gone[0].encode() in file.read_bytes() for file in root.rglob("*") if file.is_file())


def test_rows_are_erased_by_a_columns_value(tmp_path: Path) -> None:
    write(folder_of(tmp_path), ["a", "b", "c"], **{"in.user": [7, 8, 7]})
    write(folder_of(tmp_path), ["d"], **{"in.user": pa.array([None], pa.int64())})
    write(folder_of(tmp_path, model="other"), ["e"], **{"in.user": [7]})
    write(folder_of(tmp_path), ["f"])
    write(folder_of(tmp_path, "2026-03-04"), ["g"], **{"in.user": [7]})
    assert erase_from_log(tmp_path, column="in.user", value="seven", grace=0).rows == 0
    assert erase_from_log(tmp_path, column="in.user", value="7", model="m", grace=0).rows == 3
    assert ids_of(tmp_path) == ["b", "d", "e", "f"]
    assert files_of(folder_of(tmp_path, "2026-03-04")) == []
    with pytest.raises(InvalidInput, match="give either requests"):
        erase_from_log(tmp_path)


def test_rows_are_erased_by_a_value_among_a_columns_elements(tmp_path: Path) -> None:
    write(folder_of(tmp_path), ["a", "b", "c"], **{"in.user": pa.array([[8812], [77], None])})
    write(folder_of(tmp_path), ["d", "e"], **{"in.user": pa.array([[[1, 2], []], [[3], [8812]]])})
    done = erase_from_log(tmp_path, column="in.user", value="8812", grace=0)
    assert (done.rows, done.files, done.skipped) == (2, 2, ())
    assert ids_of_files(tmp_path) == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (
            {"column": "in.user", "value": "1"},
            r"no file of the log has a column 'in.user': use one of in.x, request_id",
        ),
        ({"column": "in.x", "value": "1", "model": "mm"}, r"nothing is logged of model 'mm' in .*: it has m"),
        ({"requests": ["a"], "model": "mm"}, r"nothing is logged of model 'mm'"),
    ],
)
def test_what_the_log_does_not_have_is_no_erasure_of_nothing(tmp_path: Path, what: Any, told: str) -> None:
    write(folder_of(tmp_path), ["a"])
    with pytest.raises(InvalidInput, match=told):
        erase_from_log(tmp_path, grace=0, **what)


@pytest.mark.parametrize("read", [pq.read_table, pd.read_parquet, duckdb.read_parquet])
def test_a_list_of_files_from_before_is_an_error_and_no_other_rows(root: Path, read: Callable[[str], Any]) -> None:
    """Also where the folder was opened before and is listed only now, when what it held has been put away."""
    listed = files_of(folder_of(root))
    opened = os.open(folder_of(root), os.O_RDONLY)
    compact_log(root, settled=0, grace=0.01)
    slowly = [folder_of(root) / name for name in os.listdir(opened)]  # noqa: PTH208 (of a descriptor)
    os.close(opened)
    assert set(listed) <= set(slowly)
    for file in listed:
        with pytest.raises((FileNotFoundError, duckdb.IOException)):
            read(str(file))
    assert len(ids_of(root)) == 60


def test_names_that_were_left_for_slow_readers_hold_no_rows_and_go_after_an_hour(root: Path) -> None:
    compact_log(root, settled=0, grace=0.01)
    left = list(root.rglob(".date=*"))
    assert [len(list(one.glob("*.parquet"))) for one in left] == [10, 10]
    assert not any(file.stat().st_size for one in left for file in one.iterdir())
    compacted(root)
    assert list(root.rglob(".date=*")) == left
    for one in left:
        os.utime(one, (0, 0))
    compacted(root)
    assert list(root.rglob(".date=*")) == []


def test_writers_and_readers_go_on_meanwhile(tmp_path: Path) -> None:
    """Whoever reads by a plain glob gets no row twice, and when all is done each row is there once."""
    written: list[str] = []
    wrong: list[int] = []
    ended = threading.Event()
    times, reads = 0, 0

    def engine() -> None:
        for number in range(2_000):
            write(folder_of(tmp_path), [f"r{number:05d}"])
            written.append(f"r{number:05d}")
            if times > 1 and reads > 1:
                return

    def reader() -> None:
        nonlocal reads
        while not ended.is_set():
            try:
                with duckdb.connect() as connection:
                    rows = connection.execute(f"SELECT request_id FROM '{tmp_path}/*/*/date=*/*.parquet'").fetchall()
            except duckdb.IOException:
                continue
            found = Counter(row[0] for row in rows)
            reads += 1
            if max(found.values()) > 1:
                wrong.append(max(found.values()))

    write(folder_of(tmp_path), ["first"])
    writing, reading = threading.Thread(target=engine), threading.Thread(target=reader)
    writing.start()
    reading.start()
    try:
        while writing.is_alive():
            times += compact_log(tmp_path, least_files=2, settled=0, grace=0.2).folders
    finally:
        writing.join()
        ended.set()
        reading.join()
    assert wrong == []
    assert ids_of(tmp_path) == ["first", *written]
