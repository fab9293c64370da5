"""Lookup tables: every kind of file and column, keys that are not there, and files that are no tables."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.support.models.loading import answered, load_files, load_published, outputs, unpublished_loader
from tests.support.models.versions import Draft, fill, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, NotFound
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec

COLUMNS: dict[str, Any] = {
    "airport": ["EWR", "JFK", "é"],
    "delay": [1.5, None, 3.0],
    "flights": [10, 20, 30],
    "hub": [True, False, True],
    "city": ["Newark", "", "x"],
}
VECTORS = {"id": [7, 5], "vector": [[1.0, 2.0], [3.0, 4.0]]}


def as_parquet(columns: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def as_csv(columns: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    csv.write_csv(pa.table(columns), sink)
    return sink.getvalue()


def words(*keys: str) -> Any:
    return np.array([key.encode() for key in keys], dtype=object)


@pytest.mark.parametrize(("file", "data"), [("t.parquet", as_parquet(COLUMNS)), ("t.csv", as_csv(COLUMNS))])
def test_columns_are_found_by_the_first_one(tmp_path: Path, file: str, data: bytes) -> None:
    version = load_files(tmp_path, "table", {file: data})
    signature = version.manifest.signatures[SERVING_DEFAULT]
    assert signature.inputs == (TensorSpec("airport", "string"),)
    dtypes = {"delay": "float64", "flights": "int64", "hub": "bool", "city": "string"}
    assert {spec.name: spec.dtype for spec in signature.outputs} == dtypes
    found = outputs(version, {"airport": words("é", "JFK", "é")})
    np.testing.assert_array_equal(found["delay"], [3.0, np.nan, 3.0])
    assert found["flights"].tolist() == [30, 20, 30]
    assert found["hub"].tolist() == [True, False, True]
    assert found["city"].tolist() == [b"x", b"", b"x"]


def test_lists_are_vectors_and_keys_may_be_numbers(tmp_path: Path) -> None:
    version = load_files(tmp_path, "table", {"t.parquet": as_parquet(VECTORS)})
    assert outputs(version, {"id": np.array([5, 7, 5])})["vector"].tolist() == [[3, 4], [1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("column", "dtype", "values"),
    [
        (pa.array([1, 2], pa.float16()), "float16", [1.0, 2.0]),
        (pa.array([1, 2**64 - 1], pa.uint64()), "uint64", [1, 2**64 - 1]),
        (pa.array(["x", "y"], pa.large_string()), "string", [b"x", b"y"]),
        (pa.array(["x", "y"], pa.string()).cast(pa.string_view()), "string", [b"x", b"y"]),
        (pa.array([b"\xff", b""], pa.large_binary()), "string", [b"\xff", b""]),
        (pa.array([b"12", b"34"], pa.binary(2)), "string", [b"12", b"34"]),
        (pa.array(["x", "x"]).dictionary_encode(), "string", [b"x", b"x"]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.float32())), "float32", [[1, 2], [3, 4]]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), "int8", [[1, 2], [3, 4]]),
        (pa.array([["a", "b"], ["c", "d"]]), "string", [[b"a", b"b"], [b"c", b"d"]]),
        (pa.array([[[1.0], [2.0]], [[3.0], [4.0]]]), "float64", [[[1], [2]], [[3], [4]]]),
    ],
)
def test_columns_keep_their_dtype(tmp_path: Path, column: Any, dtype: str, values: list[Any]) -> None:
    version = load_files(tmp_path, "table", {"t.parquet": as_parquet({"key": ["a", "b"], "v": column})})
    assert version.manifest.signatures[SERVING_DEFAULT].outputs[0].dtype == dtype
    assert outputs(version, {"key": words("a", "b")})["v"].tolist() == values


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1, 2], pa.timestamp("ms")), r"'v' is timestamp\[ms\], which cannot be served: cast it"),
        (pa.array([1, 2], pa.date32()), r"'v' is date32\[day\]"),
        (pa.array([{"a": 1}, {"a": 2}]), "'v' is struct<a: int64>"),
        (pa.array([1, 2], pa.decimal128(5, 2)), r"'v' is decimal128\(5, 2\)"),
        (pa.array([[1], [1, 2]]), "values of 'v' differ in kind or length"),
        (pa.array([[1], None]), "values of 'v' differ in kind or length"),
        (pa.array([[1], [None]]), "'v' of int64 has 1 empty values"),
    ],
)
def test_a_column_that_cannot_be_served_is_named_with_its_type(tmp_path: Path, column: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        load_files(tmp_path, "table", {"t.parquet": as_parquet({"key": ["a", "b"], "v": column})})


def test_a_csv_keeps_zeros_in_front_and_dates_as_they_are_written(tmp_path: Path) -> None:
    version = load_files(
        tmp_path, "table", {"t.csv": "zip,n,code,day\n01234,10,7,2020-01-01\n99999,0,007,2020-01-02\n"}
    )
    assert {spec.name: spec.dtype for spec in version.manifest.signatures[SERVING_DEFAULT].outputs} == {
        "n": "int64",
        "code": "string",
        "day": "string",
    }
    found = outputs(version, {"zip": words("99999", "01234")})
    assert found["code"].tolist() == [b"007", b"7"]
    assert found["day"].tolist() == [b"2020-01-02", b"2020-01-01"]


def test_a_csv_keeps_digits_and_codes_and_reads_fractions(tmp_path: Path) -> None:
    rows = (
        "12345678901234567890,98765432109876543210,2E05,007.5,1e3,1e-05,100000000000000000000",
        "7,1,123,1.5,0.5,2e20,",
    )
    version = load_files(tmp_path, "table", {"t.csv": "\n".join(("key,account,code,zeros,mixed,tiny,round", *rows))})
    found = outputs(version, {"key": words("12345678901234567890")})
    assert {name: value.tolist() for name, value in found.items()} == {
        "account": [b"98765432109876543210"],
        "code": [b"2E05"],
        "zeros": [b"007.5"],
        "mixed": [1000.0],
        "tiny": [1e-05],
        "round": [1e20],
    }


def test_the_index_that_pandas_adds_is_no_value(tmp_path: Path) -> None:
    data = as_parquet({"__index_level_0__": [5, 9], "key": ["a", "b"], "v": [1, 2]})
    version = load_files(tmp_path, "table", {"t.parquet": data})
    assert [spec.name for spec in version.manifest.signatures[SERVING_DEFAULT].outputs] == ["v"]


def test_large_whole_numbers_in_json_stay_whole(tmp_path: Path) -> None:
    version = load_files(tmp_path, "table", {"t.json": '{"a": 9223372036854775809, "b": 1}'})
    assert outputs(version, {"key": words("a", "b")})["value"].tolist() == [9223372036854775809, 1]


def test_json_may_hold_plain_values_or_objects(tmp_path: Path) -> None:
    plain = load_files(tmp_path / "a", "table", {"t.json": '{"a": 1.5, "é": 2}'})
    assert outputs(plain, {"key": words("é", "a")})["value"].tolist() == [2.0, 1.5]
    rich = load_files(tmp_path / "b", "table", {"t.json": '{"a": {"n": 1, "v": [1, 2]}, "b": {"n": 2, "v": [3, 4]}}'})
    found = outputs(rich, {"key": words("b")})
    assert (found["n"].tolist(), found["v"].tolist()) == ([2], [[3, 4]])


def test_a_key_that_is_not_there_fails_its_row_alone(tmp_path: Path) -> None:
    version = load_files(tmp_path, "table", {"t.json": '{"a": 1, "b": 2}'})
    answer = answered(version, {"key": words("b", "c", "a")})
    assert {row: (type(error), str(error)) for row, error in answer.errors.items()} == {
        1: (NotFound, "table m:1 has no key 'c'")
    }
    assert answer.outputs["value"][[0, 2]].tolist() == [2, 1]


def test_a_default_stands_in_for_a_key_that_is_not_there(tmp_path: Path) -> None:
    signature = Signature(
        (TensorSpec("carrier", "string"), TensorSpec("at", "int64")),
        (TensorSpec("name", "string"), TensorSpec("vector", "float32", (-1, 2))),
    )
    draft = Draft(
        platform="table",
        files={"t.json": '{"UA": {"name": "United", "vector": [1.0, 2.0]}}', "profile/profile.json": "{}"},
        signature=signature,
        example={"carrier": "UA", "at": 1},
        event_time="at",
        metadata={"table.key": "carrier", "table.default": '{"name": "", "vector": [0, 0.5]}'},
    )
    version = load_published(publish(tmp_path, "m", 1, draft))
    found = outputs(version, {"carrier": words("UA", "AA"), "at": np.array([1, 2])})
    assert found["name"].tolist() == [b"United", b""]
    assert found["vector"].tolist() == [[1, 2], [0, 0.5]]


def test_an_empty_table_knows_no_key(tmp_path: Path) -> None:
    data = as_parquet({"id": pa.array([], pa.int64()), "value": pa.array([], pa.float32())})
    assert set(answered(load_files(tmp_path, "table", {"t.parquet": data}), {"id": np.array([1])}).errors) == {0}


@pytest.mark.parametrize(
    ("file", "data", "kind", "match"),
    [
        ("t.json", "{", ModelFailed, "is no JSON"),
        ("t.json", "[1]", InvalidInput, "no object of keys"),
        ("t.json", '{"a": {"n": 1}, "b": {"m": 1}}', InvalidInput, "key 'b' has m, others have n"),
        ("t.json", '{"a": null}', InvalidInput, "of no kind that can be served"),
        ("t.json", '{"a": "x", "b": 1}', InvalidInput, "differ in kind"),
        ("t.json", '{"a": [1], "b": [1, 2]}', InvalidInput, "differ in kind or length"),
        ("t.parquet", "nonsense", ModelFailed, r"(?s)no table that can be read .*: write it anew"),
        ("t.csv", "a,b\n1", ModelFailed, "no table that can be read"),
        ("t.csv", "a\n1\n", InvalidInput, "at least one value"),
        ("t.csv", "a,b\n1,2\n1,3\n", InvalidInput, "1 keys are there twice, such as 1: keep one each"),
        ("t.csv", "a,b\nü,2\nü,3\n", InvalidInput, "such as 'ü'"),
        ("t.csv", "a,b,b\n1,2,3\n", InvalidInput, "has 2 columns 'b': keep one"),
        ("t.json", '{"a": 1, "b": 2, "a": 3}', InvalidInput, "key 'a' is there twice: keep one"),
        ("t.json", '{"a": 1, "b": "x"}', InvalidInput, "they are number, text"),
        ("t.json", '{"a": [1, true], "b": [2, 3]}', InvalidInput, "they are bool, number"),
        ("t.json", '{"a": 1, "b": null}', InvalidInput, "of no kind that can be served"),
        ("t.json", '{"a": 1, "b": 1000000000000000000000}', InvalidInput, "too large"),
        ("t.json", '{"a": {}}', InvalidInput, "key 'a' has nothing"),
        ("t.json", '{"a": [{"b": 1}]}', InvalidInput, "of no kind that can be served"),
        ("t.csv", "a,b\n1.5,2\n", InvalidInput, "keys are float64"),
        ("t.csv", "a,b\n1,\n2,7\n", InvalidInput, "'b' of int64 has 1 empty values"),
    ],
)
def test_what_is_no_table_says_why(tmp_path: Path, file: str, data: str, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        load_files(tmp_path, "table", {file: data})


@pytest.mark.parametrize(
    ("signature", "metadata", "match"),
    [
        (Signature((TensorSpec("word", "string"),), (TensorSpec("value", "int64"),)), {}, "one input 'key' of string"),
        (Signature((TensorSpec("key", "int64"),), (TensorSpec("value", "int64"),)), {}, "one input 'key' of string"),
        (Signature((TensorSpec("key", "string"),), (TensorSpec("y", "int64"),)), {}, "no column 'y'"),
        (
            Signature((TensorSpec("key", "string"),), (TensorSpec("value", "int64"),)),
            {"table.default": '{"other": 1}'},
            r"table\.default.*for each of value",
        ),
        (
            Signature((TensorSpec("key", "string"),), (TensorSpec("value", "int64"),)),
            {"table.default": '{"value": 0.5}'},
            "0.5 is no int64",
        ),
        (
            Signature((TensorSpec("key", "string"),), (TensorSpec("value", "int64"),)),
            {"table.default": '{"value": 99999999999999999999}'},
            r"table\.default",
        ),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(
    tmp_path: Path, signature: Signature, metadata: dict[str, str], match: str
) -> None:
    draft = Draft("table", {"t.json": '{"a": 1}'}, signature, example={"key": "a"}, metadata=metadata)
    with pytest.raises(InvalidInput, match=match):
        load_published(publish(tmp_path, "m", 1, draft))


COUNT = 20_000
KEYS = [f"key {number}" for number in range(COUNT)]


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("t.parquet", as_parquet({"key": KEYS, "value": list(range(COUNT))})),
        ("t.parquet", as_parquet({"key": KEYS, "value": ["the same text in every row"] * COUNT})),
        ("t.parquet", as_parquet({"key": KEYS, "value": [[0.0] * 30] * COUNT})),
        ("t.csv", "key,value\n" + "".join(f"key {number},3\n" for number in range(COUNT))),
        ("t.json", json.dumps(dict.fromkeys(KEYS, 3))),
    ],
    ids=["plain", "same", "lists", "csv", "json"],
)
def test_the_estimate_is_above_what_the_table_takes(tmp_path: Path, file: str, data: Any) -> None:
    import tracemalloc

    fill(tmp_path, {file: data})
    loader = unpublished_loader(tmp_path, "table")
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    loaded = loader.load()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(outputs(loaded, {"key": words("key 3")})["value"]) == 1
    assert 0 < after - before < loader.estimate()["ram"] < 20 * (after - before)
