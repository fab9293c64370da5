"""Tables that are read piece by piece are told the same as those in memory, and so are few rows and a sample's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.skew import Columns, SkewReport, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import count_relation, make_profile, relation, rows
from tidegate_validation.statistics.bins import OFF_SUPPORT
from tidegate_validation.statistics.event_times import with_times
from tidegate_validation.statistics.facts import Facts, facts_of
from tidegate_validation.statistics.relation import connected, relation_of
from tidegate_validation.statistics.rows import read_rows
from tidegate_validation.tables import as_table

DAYS, PER_DAY = 40, 100
FIRST = 19_000
BLOCK = 'CAST(floor("at" / 86400) AS BIGINT)'
COLUMNS = Columns(time="at")


def parcels(seed: int, days: int, first: int) -> pd.DataFrame:
    """Numbers of several kinds, texts, missing values, repeated rows and a time stamp."""
    random = np.random.default_rng(seed)
    n = days * PER_DAY
    weight = np.round(random.gamma(3, 2, n), 1)
    weight[random.random(n) < 0.05] = np.nan
    size = np.exp(random.normal(3, 1, n))
    size[:3] = np.inf, -np.inf, np.nan
    at = (first + np.repeat(np.arange(days), PER_DAY)) * 86_400 + np.tile(np.arange(PER_DAY) * 800, days)
    depot = random.choice(["north", "south", "", "east"], n).astype(object)
    depot[random.random(n) < 0.1] = None
    found = pd.DataFrame(
        {
            "weight": weight,
            "size": size,
            "pieces": random.integers(1, 9, n),
            "express": random.random(n) < 0.3,
            "depot": depot,
            "customer": [f"c{one}" for one in random.integers(0, 3000, n)],
            "packed": pd.to_datetime(at - random.integers(0, 7200, n), unit="s"),
            "at": at,
        }
    )
    return pd.concat([found, found.iloc[::50]]).sort_values("at", kind="stable")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Training's days in two files of a pattern, and a week whose weights are in another unit."""
    folder = tmp_path_factory.mktemp("parcels")
    before = parcels(1, DAYS, FIRST)
    before.iloc[: len(before) // 2].to_parquet(folder / "before-1.parquet", index=False)
    before.iloc[len(before) // 2 :].to_parquet(folder / "before-2.parquet", index=False)
    now = parcels(2, 7, FIRST + DAYS)
    now.assign(weight=now["weight"] * 1000, pieces=now["pieces"] + 1).to_parquet(folder / "now.parquet", index=False)
    return folder / "before-*.parquet", folder / "now.parquet"


def told(found: SkewReport) -> dict[str, object]:
    document = found.to_dict()
    return {name: document[name] for name in document if name != "made_at"}


@pytest.mark.parametrize("columns", [COLUMNS, Columns()], ids=["with time", "without"])
@pytest.mark.parametrize("read", [rows.MOST_ROWS, 2000], ids=["whole", "a sample"])
def test_files_too_large_for_memory_are_told_as_those_that_are_not(
    files: tuple[Path, Path], columns: Columns, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_ROWS", read)
    in_memory = report_on_tables(*files, columns)
    assert {one.subject for one in in_memory.findings if one.outcome.value == "FAIL"} >= {"weight", "pieces"}
    monkeypatch.setattr(relation, "LARGE", 100)
    monkeypatch.setattr(relation, "as_table", None)
    assert told(report_on_tables(*files, columns)) == told(in_memory)


def test_of_each_table_one_sample_is_drawn(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list[str]()

    def counted(name: str, size: int, sampled: Callable[[str, int], str] = rows.sampled) -> str:
        drawn.append(name)
        return sampled(name, size)

    monkeypatch.setattr(rows, "MOST_ROWS", 500)
    for module in (rows, relation):
        monkeypatch.setattr(module, "sampled", counted)
    report_on_tables(*files, COLUMNS)
    assert [one for one in drawn if one.startswith(("tidegate_before", "tidegate_now"))] == [
        "tidegate_before",
        "tidegate_now",
    ]


@pytest.mark.parametrize("read", [rows.MOST_ROWS, 2000], ids=["whole", "a sample"])
def test_times_in_texts_are_read_once_and_told_as_stamps_are(
    files: tuple[Path, Path], read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_ROWS", read)
    frames = [pd.read_parquet(one) for one in (files[0].with_name("before-1.parquet"), files[1])]
    stamps = [one.assign(at=pd.to_datetime(one["at"], unit="s")) for one in frames]
    texts = [one.assign(at=one["at"].dt.strftime("%Y-%m-%d %H:%M:%S")) for one in stamps]
    of_texts, of_stamps = (report_on_tables(before, now, COLUMNS) for before, now in (texts, stamps))
    assert told(of_texts) == told(of_stamps)
    with connected() as connection:
        timed = with_times(relation_of(connection, "texts", as_table(texts[1], "texts"), "texts"), "at", "texts")
        assert timed.table is not None, "each query reads the texts anew"
        assert pa.types.is_timestamp(timed.table.schema.field("at").type)


def test_what_sql_says_of_all_rows_is_what_reading_them_says(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = facts(files[0])
    monkeypatch.setattr(rows, "MOST_ROWS", 2000)
    sampled = facts(files[0])
    assert sampled.keys() == whole.keys() == {*parcels(1, 1, FIRST).columns} - {"at"}
    for name, one in sampled.items():
        assert described(one) == described(whole[name]), name


def facts(path: Path) -> dict[str, Facts]:
    with connected() as connection:
        table = relation_of(connection, "parcels", path, "parcels")
        types = {name: kind for name, kind in table.types.items() if name != "at"}
        read = read_rows(connection, table.name, BLOCK, types, table.rows)
        return facts_of(connection, table.name, BLOCK, types, read)


def described(one: Facts) -> list[object]:
    """All but the values in order, which are a sample's."""
    found = {field.name: getattr(one, field.name) for field in dataclasses.fields(one) if field.name != "ordered"}
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in found.values()]


def test_folders_of_files_have_their_names_as_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for year in (2012, 2013):
        folder = tmp_path / f"year={year}" / "kind=north"
        folder.mkdir(parents=True)
        parcels(year, 3, FIRST).to_parquet(folder / "part.parquet", index=False)
    monkeypatch.setattr(relation, "LARGE", 100)
    monkeypatch.setattr(relation, "as_table", None)
    with connected() as connection:
        found = relation_of(connection, "parcels", tmp_path, "parcels")
        assert (found.types["year"], found.types["kind"]) == ("INTEGER", "VARCHAR")
        years = connection.execute("SELECT year, kind, count(*) FROM parcels GROUP BY ALL ORDER BY ALL").fetchall()
    assert years == [(2012, "north", 306), (2013, "north", 306)]


def test_a_place_in_folders_of_other_names_gives_no_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the folders inside the one that is given have columns as their names, however many rows there are."""
    root = tmp_path / "run=7" / "parcels"
    place = root / "year=2012" / "part.parquet"
    place.parent.mkdir(parents=True)
    parcels(5, 3, FIRST).to_parquet(place, index=False)
    for large in (relation.LARGE, 100):
        monkeypatch.setattr(relation, "LARGE", large)
        for given in (place, f"{root}/*/part.parquet", root):
            with connected() as connection:
                found = set(relation_of(connection, "parcels", given, "parcels").types)
            assert found == {*parcels(5, 1, FIRST).columns, *(["year"] if given == root else [])}, (large, given)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("x", "X"), "parcels: columns 'x' and 'X' differ by capitals alone"),
        (("x", ""), "parcels: column 2 has no name"),
    ],
)
def test_names_that_sql_cannot_tell_apart_are_refused(
    names: tuple[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB calls them X_1 and v1, of which nobody has heard."""
    table = pa.table(dict.fromkeys(names, range(200)))
    pq.write_table(table, tmp_path / "part.parquet")
    monkeypatch.setattr(relation, "LARGE", 100)
    for given in (table, tmp_path / "part.parquet", tmp_path):
        with connected() as connection, pytest.raises(InvalidInput, match=words):
            relation_of(connection, "parcels", given, "parcels")


def test_which_of_two_tables_has_such_names_is_said() -> None:
    alike = pa.table({"x": [1.0], "X": [2.0]})
    with pytest.raises(InvalidInput, match="reference data: columns 'x' and 'X'"):
        profile_table(alike, Columns(), ["x"])
    with pytest.raises(InvalidInput, match="current data: columns 'x' and 'X'"):
        report_on_table(profile_table(alike.select(["x"]), Columns(), ["x"]), alike, Columns())


def test_a_profile_of_one_of_two_names_is_of_that_one() -> None:
    table = pa.table({"X": [5.0] * 40, "x": [float(row) for row in range(40)]})
    assert make_profile(table, features=["x"], label=None, event_time=None).features["x"].maximum == 39


def test_rows_that_were_read_are_counted_as_sql_counts_them() -> None:
    """Also those that training never held, on and off its range, and those that are no ordinary values."""
    features = ["weight", "size", "pieces", "express", "depot", "customer", "packed"]
    training = as_table(parcels(4, DAYS, FIRST), "parcels")
    profile = make_profile(training, features=features, label=None, event_time="at")
    others = parcels(3, 5, FIRST).assign(weight=lambda rows: rows["weight"] + 0.05)
    with connected() as connection:
        table = relation_of(connection, "parcels", others, "parcels")
        read = read_rows(connection, table.name, BLOCK, table.types, table.rows)
        by_sql = count_relation(connection, table.name, BLOCK, profile.inputs, {})
    for feature in profile.inputs:
        found, wanted = read.columns[feature.name].counts(feature), by_sql[feature.name]
        assert (found.blocks.tolist(), found.codes.tolist()) == (wanted.blocks.tolist(), wanted.codes.tolist())
        assert found.n.tolist() == wanted.n.tolist(), feature.name
    assert max(by_sql["weight"].codes) >= OFF_SUPPORT
