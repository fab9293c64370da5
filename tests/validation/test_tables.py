"""Evaluation data comes in as a table whatever its form, and what cannot is refused by name with a cure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tests.validation import world

from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_validation.tables import as_table, read_table

TABLE = pa.table({"x": [1.5, None, 3.0], "kind": ["a", "b", None], "n": pa.array([1, 2, 3], pa.int64())})
ROWS = TABLE.to_pylist()


def frame_with_index() -> pd.DataFrame:
    frame: pd.DataFrame = TABLE.to_pandas().set_index(pd.Index([10, 20, 30], name="id"))
    return frame


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_reader(),
        TABLE.to_batches()[0],
        frame_with_index(),
        TABLE.to_pandas().astype({"kind": "category"}),
        pl.from_arrow(TABLE),
        pl.DataFrame(pl.from_arrow(TABLE)).with_columns(pl.col("kind").cast(pl.Categorical)),
        pl.DataFrame(pl.from_arrow(TABLE)).lazy(),
        duckdb.from_arrow(TABLE),
        {"x": [1.5, None, 3.0], "kind": ["a", "b", None], "n": [1, 2, 3]},
    ],
    ids=[
        "arrow",
        "reader",
        "batch",
        "pandas",
        "categories",
        "polars",
        "polars categories",
        "lazy",
        "duckdb",
        "mapping",
    ],
)
def test_a_table_in_memory_is_read_whatever_made_it(data: Any) -> None:
    table = as_table(data, "held-out data")
    assert table.column_names == ["x", "kind", "n"]
    assert table.to_pylist() == ROWS
    assert table.schema.field("kind").type == pa.string()


def write_duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.register("given", TABLE)
        connection.execute('CREATE TABLE "held out" AS SELECT * FROM given')


@pytest.mark.parametrize(
    ("name", "write", "suffix"),
    [
        ("data.parquet", lambda path: pq.write_table(TABLE, path), ""),
        ("data.csv", lambda path: pyarrow.csv.write_csv(TABLE, path), ""),
        ("data.tsv", lambda path: path.write_text("x\tkind\tn\n1.5\ta\t1\n\tb\t2\n3.0\tNA\t3\n"), ""),
        ("data.csv.gz", lambda path: TABLE.to_pandas().to_csv(path, index=False), ""),
        ("data.feather", lambda path: pyarrow.feather.write_feather(TABLE, path), ""),
        ("data.jsonl", lambda path: TABLE.to_pandas().to_json(path, orient="records", lines=True), ""),
        ("data.duckdb", write_duckdb, "::held out"),
        ("data.duckdb", write_duckdb, '::SELECT * FROM "held out"'),
    ],
)
def test_a_file_is_read_by_its_name(tmp_path: Path, name: str, write: Callable[[Path], None], suffix: str) -> None:
    write(tmp_path / name)
    assert as_table(f"{tmp_path / name}{suffix}", "held-out data").to_pylist() == ROWS


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    for day in ("2013-01-01", "2013-01-02"):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        pq.write_table(TABLE, folder / "part.parquet")
    table = read_table(tmp_path, "held-out data")
    assert table.num_rows == 6
    assert set(table["day"].to_pylist()) == {"2013-01-01", "2013-01-02"}


def test_decimals_become_numbers_and_large_lists_lists() -> None:
    odd = pa.table(
        {
            "price": pa.array([1, 2], pa.decimal128(10, 2)),
            "v": pa.array([[1.0], [2.0]], pa.large_list(pa.float64())),
        }
    )
    assert as_table(odd, "data").to_pylist() == [{"price": 1.0, "v": [1.0]}, {"price": 2.0, "v": [2.0]}]


def test_floats_of_16_bits_are_longer_ones_and_intervals_their_ends() -> None:
    odd = pd.DataFrame({"half": np.array([0.5, 1.5], dtype=np.float16), "range": pd.cut([0.5, 2.5], [0, 1, 3])})

    found = as_table(odd, "data")

    assert found["half"] == pa.chunked_array([pa.array([0.5, 1.5], pa.float32())])
    assert found["range"].to_pylist() == [{"left": 0, "right": 1}, {"left": 1, "right": 3}]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (7, "held-out data is a int"),
        ("missing.parquet", "missing.parquet is missing"),
        (pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), "column 'x' twice"),
        ({"x": [1, 2], "y": [1]}, r"held-out data cannot become a table \(.*\): give columns of one length"),
    ],
)
def test_what_is_no_table_is_refused(data: Any, words: str) -> None:
    with pytest.raises((InvalidInput, NotFound), match=words):
        as_table(data, "held-out data")


@pytest.mark.parametrize(
    ("name", "suffix", "words"),
    [
        ("data.parquet", "", "cannot be read .*: write the file anew, or name another"),
        ("data.xls", "", "no kind that is known"),
        ("data.duckdb", "", "name the table too"),
        ("data.duckdb", "::", "names no table"),
        ("nowhere.duckdb", "::t", "is missing"),
    ],
)
def test_a_file_of_the_wrong_kind_is_refused_by_name(tmp_path: Path, name: str, suffix: str, words: str) -> None:
    if not name.startswith("nowhere"):
        (tmp_path / name).write_bytes(b"neither this nor that\n")
    with pytest.raises((InvalidInput, NotFound), match=words):
        as_table(f"{tmp_path / name}{suffix}", "held-out data")


def test_a_table_that_the_database_lacks_is_named(tmp_path: Path) -> None:
    write_duckdb(tmp_path / "data.duckdb")
    with pytest.raises(NotFound, match="no 'other'"):
        as_table(f"{tmp_path / 'data.duckdb'}::other", "held-out data")


def test_tables_digest_alike_however_they_are_chunked() -> None:
    from tidegate_validation.gates import table_digest

    table = world.parcels(500, seed=3)
    pieces = pa.concat_tables([table.slice(0, 200), table.slice(200)])
    assert table_digest(pieces) == table_digest(table)
    assert table_digest(world.scaled(table, "weight", 2)) != table_digest(table)


def test_columns_of_csv_without_a_name_are_called_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    pd.DataFrame({"x": [1.5, 2.5]}).to_csv(path)
    assert as_table(path, "data").column_names == list(pd.read_csv(path).columns) == ["Unnamed: 0", "x"]
    pd.read_csv(path).to_csv(path)
    assert as_table(path, "data").column_names == list(pd.read_csv(path).columns) == ["Unnamed: 0.1", "Unnamed: 0", "x"]
