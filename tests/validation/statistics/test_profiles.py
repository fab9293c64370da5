"""Profiles: every row falls into one frozen bin, counts add up, and what is written can be read again."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.validation import world

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported
from tidegate_validation.statistics import (
    Profile,
    Role,
    build_profile,
    count_relation,
    make_profile,
    read_profile,
)
from tidegate_validation.statistics.bins import (
    EMPTY,
    INFINITE,
    NAN,
    NEGATIVE_INFINITE,
    NULL,
    OFF_SUPPORT,
    CategoryBins,
    DiscreteBins,
    NumericBins,
)

ONE_DAY = "20000"


def counted(profile: Profile, table: pa.Table, block: str = ONE_DAY) -> dict[str, dict[int, int]]:
    """Rows per bin code and feature, all blocks together."""
    with duckdb.connect() as connection:
        connection.register("served", table)
        counts = count_relation(connection, "served", block, list(profile.features.values()), {})
    return {
        name: {int(code): int(n) for code, n in zip(part.codes, part.n.sum(axis=0), strict=True) if n}
        for name, part in counts.items()
    }


def test_each_bin_has_a_name_that_tells_its_ends_apart() -> None:
    bins = NumericBins((-4823.0, 80.0, 1023.2, 1023.4, 4983.0, 4983.001, 9886.0))
    narrow, single = "1023.2 to 1023.4", "4983"
    ranges = ["-4823 to 80", "80 to 1023", narrow, "1023 to 4983", single, "4983 to 9886"]
    assert bins.labels() == ["below -4823", *ranges, "9886 and more"]


def test_counts_of_training_agree_with_counting_by_hand() -> None:
    random = np.random.default_rng(1)
    values = np.where(random.random(20_000) < 0.3, 0.0, random.lognormal(1, 1, 20_000))
    profile = make_profile(pa.table({"x": values}), features=["x"], label=None, event_time=None)
    bins = profile.features["x"].bins
    assert isinstance(bins, NumericBins)
    assert bins.atoms == (0.0,)
    by_hand = np.bincount(bins.assign(values), minlength=bins.size)
    part = profile.counts["x"]
    found = np.zeros(bins.size, dtype=np.int64)
    found[part.codes] = part.n.sum(axis=0)
    assert found.tolist() == by_hand.tolist()
    assert found[len(bins.edges) + 1] == int((values == 0).sum())
    assert part.rows == len(values)
    inner = np.sort(found[found > 0])
    assert inner[-2] / len(values) < 0.09, "ten quantile ranges of what is no atom hold less than a tenth each"


def test_bins_reach_into_the_tails() -> None:
    values = np.random.default_rng(2).normal(size=50_000)
    profile = make_profile(pa.table({"x": values}), features=["x"], label=None, event_time=None)
    part = profile.counts["x"]
    assert sorted(part.n.sum(axis=0) / len(values))[:4] == pytest.approx([0.001, 0.001, 0.009, 0.009], abs=2e-4)


def test_training_in_float64_and_serving_in_float32_meet_in_the_same_bins() -> None:
    random = np.random.default_rng(3)
    table = pa.table({"grid": np.round(random.normal(size=9000), 1) + 0.1, "free": random.lognormal(size=9000)})
    profile = make_profile(table, features=["grid", "free"], label=None, event_time=None)
    single = pa.table({name: table[name].to_numpy().astype(np.float32) for name in table.column_names})
    assert counted(profile, single) == counted(profile, table)


def test_what_is_no_ordinary_value_is_counted_apart() -> None:
    values = np.random.default_rng(4).normal(size=1000)
    training = pa.table({"x": values, "kind": ["a", "b"] * 500, "flag": [True, False] * 500})
    profile = make_profile(training, features=["x", "kind", "flag"], label=None, event_time=None)
    odd = [None, float("nan"), float("inf"), float("-inf"), 0.0, 1e9]
    served = pa.table(
        {"x": pa.array(odd), "kind": ["a", "", None, "new", "b", "a"], "flag": [True, None, False, True, True, True]}
    )
    found = counted(profile, served)
    assert {code: found["x"][code] for code in (NULL, NAN, INFINITE, NEGATIVE_INFINITE)} == dict.fromkeys(
        (NULL, NAN, INFINITE, NEGATIVE_INFINITE), 1
    )
    bins = profile.features["x"].bins
    assert isinstance(bins, NumericBins)
    assert found["x"][bins.far[1]] == 1
    kinds = profile.features["kind"].bins
    assert isinstance(kinds, CategoryBins)
    assert found["kind"] == {0: 2, 1: 1, kinds.unseen: 1, NULL: 1, EMPTY: 1}
    assert found["flag"] == {NULL: 1, 0: 1, 1: 4}


def test_values_off_the_grid_of_training_are_marked() -> None:
    random = np.random.default_rng(5)
    training = pa.table({"size": random.choice(world.SIZES, 20_000), "day": random.integers(0, 40, 20_000) * 86_400})
    profile = make_profile(training, features=["size"], label=None, event_time="day")
    found = counted(profile, pa.table({"size": [float(world.SIZES[0]), float(world.SIZES[0]) + 0.037]}))
    assert sorted(code >= OFF_SUPPORT for code in found["size"]) == [False, True]


def test_categories_beyond_the_top_are_known_and_others_are_not() -> None:
    names = [f"k{index % 80}" for index in range(8000)]
    profile = make_profile(pa.table({"kind": names}), features=["kind"], label=None, event_time=None)
    bins = profile.features["kind"].bins
    assert isinstance(bins, CategoryBins)
    assert len(bins.top) == 50
    rare = bins.others[0]
    assert counted(profile, pa.table({"kind": [rare, "stranger"]}))["kind"] == {bins.other: 1, bins.unseen: 1}


def test_few_whole_numbers_are_told_one_by_one() -> None:
    profile = make_profile(pa.table({"hour": [5, 6, 7] * 40}), features=["hour"], label=None, event_time=None)
    bins = profile.features["hour"].bins
    assert isinstance(bins, DiscreteBins)
    served = pa.table({"hour": pa.array([5.0, 7.0, 9.0], pa.float32())})
    assert counted(profile, served)["hour"] == {0: 1, 2: 1, bins.unseen: 1}


def test_counts_add_up_over_parts() -> None:
    table = world.parcels(4000, seed=6)
    profile = make_profile(table, features=["weight", "size", "depot"], label=None, event_time=world.TIME)
    with duckdb.connect() as connection:
        connection.register("a", table.slice(0, 1500))
        connection.register("b", table.slice(1500))
        block = f"CAST(floor({world.TIME} / 86400) AS BIGINT)"
        parts = [count_relation(connection, name, block, profile.inputs, {}) for name in ("a", "b")]
    for name in ("weight", "size", "depot"):
        whole = profile.counts[name]
        merged = parts[0][name].merged(parts[1][name])
        assert merged.blocks.tolist() == whole.blocks.tolist()
        assert merged.codes.tolist() == whole.codes.tolist()
        assert (merged.n == whole.n).all()


def test_blocks_are_days_of_the_event_whether_seconds_or_timestamps() -> None:
    table = world.parcels(3000, seed=7, days=25)
    stamps = pa.array(table[world.TIME].to_numpy() * 1_000_000, pa.timestamp("us", tz="America/New_York"))
    as_stamps = world.with_column(table, world.TIME, stamps)
    profiles = [make_profile(one, features=["weight"], label=None, event_time=world.TIME) for one in (table, as_stamps)]
    days = np.unique(table[world.TIME].to_numpy() // 86_400)
    for profile in profiles:
        assert profile.counts["weight"].blocks.tolist() == days.tolist()
        assert profile.block_unit == "day"
    assert (profiles[0].counts["weight"].n == profiles[1].counts["weight"].n).all()


def test_without_an_event_time_blocks_are_equal_chunks_of_rows_and_that_is_said() -> None:
    profile = make_profile(pa.table({"x": np.arange(3000.0)}), features=["x"], label=None, event_time=None)
    assert profile.block_unit == "rows"
    assert profile.counts["x"].n.sum(axis=1).tolist() == [100] * 30


def test_label_and_event_time_are_profiled_and_marked(tmp_path: Path) -> None:
    build_profile(
        world.parcels(2000, seed=8),
        features=["weight", "depot", world.TIME],
        label=world.LABEL,
        event_time=world.TIME,
        directory=tmp_path / "profile",
    )
    profile = read_profile(tmp_path / "profile")
    assert profile.features[world.LABEL].role is Role.LABEL
    assert profile.features[world.TIME].role is Role.TIME
    assert [feature.name for feature in profile.inputs] == ["weight", "depot"]
    assert profile.label == world.LABEL


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    table = world.parcels(2000, seed=9)
    features = ["weight", "size", "depot"]
    made = make_profile(table, features=features, label=world.LABEL, event_time=world.TIME)
    build_profile(table, features=features, label=world.LABEL, event_time=world.TIME, directory=tmp_path)
    found = read_profile(tmp_path)
    assert found.features == made.features
    assert len(found.id) == 64
    for name, counts in made.counts.items():
        assert (found.counts[name].n == counts.n).all()
    columns = pq.read_schema(tmp_path / "counts.parquet").names
    assert columns == ["profile", "stream", "block", "feature", "bin", "n"]


def test_missing_columns_and_empty_tables_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="lacks height"):
        build_profile(world.parcels(10, seed=1), features=["height"], label=None, event_time=None, directory=tmp_path)
    with pytest.raises(InvalidInput, match="no rows"):
        build_profile(
            pa.table({"x": pa.array([], pa.float64())}), features=["x"], label=None, event_time=None, directory=tmp_path
        )
    with pytest.raises(InvalidInput, match="'depot' has type VARCHAR"):
        make_profile(world.parcels(10, seed=1), features=["weight"], label=None, event_time="depot")


def test_a_profile_of_another_format_is_refused(tmp_path: Path) -> None:
    build_profile(pa.table({"x": [1.0, 2.0]}), features=["x"], label=None, event_time=None, directory=tmp_path)
    path = tmp_path / "profile.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "format": "tidegate.profile/99"}))
    with pytest.raises(Unsupported, match=r"this build reads tidegate\.profile/3"):
        read_profile(tmp_path)
    path.unlink()
    with pytest.raises(NotFound, match="publish the version with its training data"):
        read_profile(tmp_path)


def test_a_profile_from_before_the_growth_of_extremes_is_refused_by_its_number_with_the_cure(tmp_path: Path) -> None:
    rows = pa.table({"day": np.repeat(np.arange(30), 50) * 86_400, "x": np.arange(1_500.0)})
    build_profile(rows, features=["x"], label=None, event_time="day", directory=tmp_path)
    path = tmp_path / "profile.json"
    document = json.loads(path.read_text())
    for deviation in document["features"][0]["deviations"]:
        del deviation["growth"]
    path.write_text(json.dumps({**document, "format": "tidegate.profile/2.3"}))
    with pytest.raises(Unsupported, match=r"has format tidegate\.profile/2\.3.*or write it again with this one"):
        read_profile(tmp_path)
