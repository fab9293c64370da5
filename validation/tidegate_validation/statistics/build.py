"""Builds the training profile: bins from one pass over the training data, counts per day of the event from a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.association import Association
from tidegate_validation.statistics.associations import chosen_columns, find_associations, levels_of, to_levels
from tidegate_validation.statistics.blocks import ROW_INDEX, BlockUnit, chunk_of, day_of
from tidegate_validation.statistics.counting import code_rows, count_relation, count_repeated, types_of
from tidegate_validation.statistics.counts import REPEATED, FeatureCounts
from tidegate_validation.statistics.points import digits_name, digits_of, weigh
from tidegate_validation.statistics.profile import FeatureProfile, Profile, Role, write_profile
from tidegate_validation.statistics.reference import Column, describe, tail_clusters
from tidegate_validation.statistics.sample import ValueSample, read_samples
from tidegate_validation.statistics.sql import family, quote
from tidegate_validation.statistics.vectors import BLOCK, is_vector, measured

TABLE = "tidegate_training"


def build_profile(
    data: Any, *, features: Sequence[str], label: str | None, event_time: str | None, directory: Path
) -> None:
    """Writes the profile of `data` (a pyarrow.Table) into `directory`.

    `features` are the model's inputs by name; `label` is profiled too, and marked, never compared with what is served.
    `event_time` names a column of Unix seconds or timestamps whose UTC days are the blocks; without one, blocks are
    equal chunks of rows, and the profile says so. Raises InvalidInput for a column that is not there or an empty table.
    """
    write_profile(make_profile(data, features=features, label=label, event_time=event_time), directory)


def make_profile(data: Any, *, features: Sequence[str], label: str | None, event_time: str | None) -> Profile:
    """The profile of `data` as a value, without an id; arguments and errors as in `build_profile`."""
    import duckdb
    import pyarrow as pa

    _check(data, [*features, *filter(None, (label, event_time))])
    wanted = list(dict.fromkeys([*features, *filter(None, (label, event_time))]))
    table = data.select(wanted)
    if event_time is None:
        table = table.append_column(ROW_INDEX, pa.array(np.arange(data.num_rows)))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(TABLE, table)
        types = types_of(connection, TABLE)
        block = day_of(event_time, types) if event_time else chunk_of(data.num_rows)
        names = [name for name in wanted if name in features or name == label]
        columns = [Column(name, types[name], family(types[name]), _role(name, label, event_time)) for name in names]
        profiles = describe(connection, TABLE, block, columns)
        counts = count_relation(connection, TABLE, block, profiles, {})
        profiles, digits = _with_points(connection, block, profiles, counts, data.num_rows)
        counts.update(digits)
        pairs = _pairs(connection, block, [one for one in profiles if one.role is Role.INPUT], counts)
        vectors = {
            one.name: _of_vectors(measured(connection, TABLE, block, one.name), event_time is not None)
            for one in profiles
            if one.role is Role.INPUT and is_vector(one.type)
        }
        counts[REPEATED] = count_repeated(connection, TABLE, block, [one for one in names if one != label])
    return Profile(
        id="",
        rows=data.num_rows,
        block_unit=BlockUnit.DAY if event_time else BlockUnit.ROWS,
        blocks=_block_count(counts),
        label=label,
        event_time=event_time,
        features={profile.name: profile for profile in profiles},
        counts=counts,
        pairs=pairs,
        vectors=vectors,
    )


def _of_vectors(measures: Any, by_day: bool) -> Profile:
    """The profile of what vectors are measured by; rows keep the blocks that they have."""
    import duckdb

    names = [name for name in measures.column_names if name != BLOCK]
    with duckdb.connect() as connection:
        connection.register(TABLE, measures)
        types, block = types_of(connection, TABLE), quote(BLOCK)
        columns = [Column(name, types[name], family(types[name]), Role.INPUT) for name in names]
        profiles = describe(connection, TABLE, block, columns)
        counts = count_relation(connection, TABLE, block, profiles, {})
        profiles, digits = _with_points(connection, block, profiles, counts, measures.num_rows)
    return Profile(
        id="",
        rows=measures.num_rows,
        block_unit=BlockUnit.DAY if by_day else BlockUnit.ROWS,
        blocks=_block_count(counts),
        label=None,
        event_time=None,
        features={profile.name: profile for profile in profiles},
        counts={**counts, **digits},
    )


def _pairs(
    connection: Any, block: str, profiles: Sequence[FeatureProfile], counts: Mapping[str, FeatureCounts]
) -> tuple[Association, ...]:
    """The inputs that go together."""
    chosen = chosen_columns(profiles)
    if len(chosen) < 2:
        return ()
    blocks, codes = code_rows(connection, TABLE, block, chosen, {})
    levels = [to_levels(codes[:, place], levels_of(one, counts[one.name])) for place, one in enumerate(chosen)]
    return find_associations([one.name for one in chosen], levels, blocks)


def _with_points(
    connection: Any, block: str, profiles: Sequence[FeatureProfile], counts: Mapping[str, FeatureCounts], rows: int
) -> tuple[list[FeatureProfile], dict[str, FeatureCounts]]:
    """The profiles with what single values weigh, and counts of the digits of numbers."""
    found, digits = [], {}
    types = {profile.name: profile.type for profile in profiles if profile.bins is not None}
    samples = read_samples(connection, TABLE, block, types, rows)
    for profile in profiles:
        if profile.bins is None:
            found.append(profile)
            continue
        sample = samples[profile.name]
        clusters = tail_clusters(profile.bins, counts[profile.name])
        found.append(replace(profile, points=weigh(sample), clusters=clusters))
        if isinstance(sample, ValueSample):
            digits[digits_name(profile.name)] = digits_of(sample)
    return found, digits


def _role(name: str, label: str | None, event_time: str | None) -> Role:
    if name == label:
        return Role.LABEL
    return Role.TIME if name == event_time else Role.INPUT


def _check(data: Any, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in data.column_names]
    if missing:
        raise InvalidInput(f"training data lacks {', '.join(missing)}; it has {', '.join(data.column_names)}")
    if data.num_rows == 0:
        raise InvalidInput("training data has no rows: give the rows that the model was trained on")


def _block_count(counts: dict[str, FeatureCounts]) -> int:
    return max((len(part.blocks) for part in counts.values()), default=0)
