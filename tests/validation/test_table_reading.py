"""Files of every kind with any content are read, or refused by an error of ours that names the file."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_validation.tables import read_table

SUFFIXES = st.sampled_from([".parquet", ".csv", ".csv.gz", ".tsv", ".arrow", ".feather", ".jsonl", ".duckdb::t"])
TEXT = st.text("abc,\n\t\"'{}:[]0123456789.-", max_size=60).map(str.encode)


def refusal(path: str) -> str:
    """What reading says, or that the held-out data could be read."""
    try:
        return f"held-out data of {read_table(path, 'held-out data').num_rows} rows"
    except TidegateError as error:
        return str(error)


@given(SUFFIXES, st.binary(max_size=120) | TEXT)
@settings(max_examples=200, deadline=None)
def test_a_file_is_read_or_refused_by_name(suffix: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        Path(str(path).removesuffix("::t")).write_bytes(content)
        assert "held-out data" in refusal(str(path))


COLUMNS = st.fixed_dictionaries(
    {
        "x": st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
        "n": st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    }
)


@given(COLUMNS)
@settings(max_examples=30, deadline=None)
def test_a_table_comes_back_from_every_kind_of_file(columns: dict[str, list[float]]) -> None:
    table = pa.table({"x": pa.array(columns["x"], pa.float64()), "n": pa.array(columns["n"], pa.int64())})
    with TemporaryDirectory() as folder:
        place = Path(folder)
        pq.write_table(table, place / "data.parquet")
        pyarrow.feather.write_feather(table, place / "data.arrow")
        for name in ("data.parquet", "data.arrow"):
            assert read_table(place / name, "held-out data").equals(table)


def test_the_files_of_a_folder_may_have_other_columns_and_types(tmp_path: Path) -> None:
    x = pa.field("x", pa.int64(), nullable=False)
    pq.write_table(pa.table({"x": [1]}, pa.schema([x])), tmp_path / "1.parquet")
    newer = pa.schema([pa.field("x", pa.float32()), pa.field("z", pa.float32(), nullable=False)])
    pq.write_table(pa.table({"x": [1.5], "z": [2.0]}, newer), tmp_path / "2.parquet")
    rows = read_table(tmp_path, "held-out data").to_pylist()
    assert rows == [{"x": 1.0, "z": None}, {"x": 1.5, "z": 2.0}]


def write(folder: Path, *tables: pa.Table) -> None:
    for place, table in enumerate(tables):
        pq.write_table(table, folder / f"{place}.parquet")


NOON = datetime(2024, 1, 2, 12)
DAY = datetime(2024, 1, 2)


@pytest.mark.parametrize(
    ("first", "second", "read"),
    [
        (pa.array(["a"]).dictionary_encode(), pa.array(["b"]), ["a", "b"]),
        (pa.array(["a"], pa.large_string()), pa.array(["b"]).dictionary_encode(), ["a", "b"]),
        (pa.array([Decimal("1.5")]), pa.array([2]), [1.5, 2.0]),
        (pa.array([NOON]), pa.array([NOON], pa.timestamp("us", "UTC")), [NOON, NOON]),
        (pa.array([NOON], pa.timestamp("us", "UTC")), pa.array([NOON]), [NOON.replace(tzinfo=UTC)] * 2),
        (pa.array([NOON]), pa.array([DAY.date()]), [NOON, DAY]),
        (
            pa.array([DAY.date()]),
            pa.array([NOON], pa.timestamp("us", "UTC")),
            [DAY.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC)],
        ),
        (pa.nulls(1), pa.array([NOON]), [None, NOON]),
    ],
)
def test_a_column_of_two_types_in_a_folder_is_read_where_they_say_the_same(
    first: Any, second: Any, read: list[Any], tmp_path: Path
) -> None:
    write(tmp_path, pa.table({"x": first}), pa.table({"x": second}))
    assert read_table(tmp_path, "held-out data")["x"].to_pylist() == read


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            pa.array([1]),
            pa.array(["2"]),
            "its files have column 'x' as int64 and string: write the files with one type",
        ),
        (
            pa.array([datetime(9999, 12, 31)]),
            pa.array([1], pa.timestamp("ns")),
            "its files have other types of 'x', and .* out of bounds.*: write the files with one type",
        ),
    ],
)
def test_a_column_whose_types_do_not_go_together_is_refused_by_name(
    first: Any, second: Any, words: str, tmp_path: Path
) -> None:
    write(tmp_path, pa.table({"x": first}), pa.table({"x": second}))
    with pytest.raises(InvalidInput, match=words):
        read_table(tmp_path, "held-out data")


def test_a_file_of_a_folder_that_has_a_column_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"x": [1]}), pa.table([[1], [2]], names=["x", "x"]))
    with pytest.raises(InvalidInput, match="held-out data has column 'x' twice"):
        read_table(tmp_path, "held-out data")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("d.csv", b"x;late\n1;0\n", "d.csv cannot be read .its columns are parted by ';', not by ','.: write"),
        ("d.csv", b"x\tlate\n1\t0\n", r"parted by '\\t', not by ','"),
        ("d.csv", "x,late\n1,0\n".encode("utf-16"), "it is in UTF-16, not in UTF-8"),
        ("d/manifest.json", b"{}", "d is a version of a model, and no data: give Parquet"),
        ("d/keys.json", b"{}", "d cannot be read .not all its files are Parquet: .*/d/keys.json"),
    ],
)
def test_what_is_no_table_is_told_with_what_it_is(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=words):
        read_table(tmp_path / name.partition("/")[0], "held-out data")


@pytest.mark.parametrize("address", ["https://example.com/june.parquet", "s3://bucket/june.parquet"])
def test_an_address_is_told_as_one(address: str) -> None:
    for data in (address, Path(address)):
        with pytest.raises(NotFound, match=r"june.parquet is an address: fetch it from there first, and give Parquet"):
            read_table(data, "held-out data")
