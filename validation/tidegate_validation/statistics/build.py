"""Builds the training profile: bins from one pass over the training data, counts per day of the event from a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.agreements import agreements_of
from tidegate_validation.statistics.association import Association
from tidegate_validation.statistics.associations import chosen_columns, find_associations, leveled
from tidegate_validation.statistics.bins import NumericBins
from tidegate_validation.statistics.blocks import BlockUnit, chunk_of, day_of
from tidegate_validation.statistics.counting import block_number, count_repeated, count_rows, types_of
from tidegate_validation.statistics.counts import REPEATED, TIME_OF_DAY, FeatureCounts
from tidegate_validation.statistics.deviations import deviations_of
from tidegate_validation.statistics.event_times import check_seconds
from tidegate_validation.statistics.facts import facts_of
from tidegate_validation.statistics.points import digits_name, digits_of, weigh
from tidegate_validation.statistics.profile import FeatureProfile, Profile, Role, write_profile
from tidegate_validation.statistics.reaches import reaches_of
from tidegate_validation.statistics.reference import Column, describe, tail_clusters
from tidegate_validation.statistics.relation import Relation, connected, relation_of_table
from tidegate_validation.statistics.rows import Rows, read_rows
from tidegate_validation.statistics.sample import ValueSample
from tidegate_validation.statistics.sql import family, quote
from tidegate_validation.statistics.texts import (
    LAST_CHARACTER,
    is_free_text,
    is_whole_id,
    measured_texts,
    telling_measures,
)
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
    wanted = list(dict.fromkeys([*features, *filter(None, (label, event_time))]))
    _check(data, wanted)
    if event_time is not None:
        check_seconds(data[event_time], event_time)
    with connected() as connection:
        relation = relation_of_table(connection, TABLE, data.select(wanted), "training data")
        return profile_relation(relation, features=features, label=label, event_time=event_time)


def profile_relation(
    relation: Relation,
    *,
    features: Sequence[str],
    label: str | None,
    event_time: str | None,
    window_rows: int | None = None,
) -> Profile:
    """The profile of a relation, without an id; other arguments as in `build_profile`. Without an event time its blocks
    are no longer than a window of `window_rows`, where it is known which will be compared."""
    relation = relation if event_time else relation.numbered(f"{relation.name}_in_order")
    connection, rows, types = relation.connection, relation.rows, relation.types
    block = day_of(event_time, types) if event_time else chunk_of(rows, window_rows)
    names = list(dict.fromkeys([*features, *filter(None, (label,))]))
    columns = [Column(name, types[name], family(types[name]), _role(name, label, event_time)) for name in names]
    told_apart = list(dict.fromkeys([*features, *filter(None, (event_time,))]))
    wanted = {name: types[name] for name in [*names, *filter(None, (event_time,))]}
    read = read_rows(connection, relation.name, block, wanted, rows, told_apart, relation.some)
    profiles, counts = _profiles(connection, relation.name, block, columns, read)
    inputs = [one for one in profiles if one.role is Role.INPUT]
    tables = {one.name: measured(connection, relation.name, block, one.name) for one in inputs if is_vector(one.type)}
    for one in inputs:
        if is_free_text(one):
            telling = telling_measures(connection, relation.name, block, one)
            tables[one.name] = measured_texts(connection, relation.name, block, one.name, telling)
        elif is_whole_id(one):
            tables[one.name] = measured_texts(connection, relation.name, block, one.name, (LAST_CHARACTER,), whole=True)
    measures = {name: _of_measures(connection, table, event_time is not None) for name, table in tables.items()}
    if event_time:
        moments = read.columns[event_time]
        counts[TIME_OF_DAY] = FeatureCounts.of_rows(moments.days, moments.day, moments.hours())
    counts[REPEATED] = count_repeated(connection, relation.name, block, told_apart, read, rows)
    return Profile(
        id="",
        rows=rows,
        block_unit=BlockUnit.DAY if event_time else BlockUnit.ROWS,
        blocks=_block_count(counts),
        label=label,
        event_time=event_time,
        features={profile.name: profile for profile in profiles},
        counts=counts,
        pairs=_pairs(read, inputs, counts, event_time),
        agreements=agreements_of(read, [one.name for one in inputs if one.bins is not None]),
        measures=measures,
    )


def _of_measures(beside: Any, measures: Any, by_day: bool) -> Profile:
    """The profile of what a column is measured by, with names of its own in the database of the connection `beside`;
    rows keep the blocks that they have."""
    names = [name for name in measures.column_names if name != BLOCK]
    with beside.cursor() as connection:
        connection.register(TABLE, measures)
        types, block = types_of(connection, TABLE), quote(BLOCK)
        columns = [Column(name, types[name], family(types[name]), Role.INPUT) for name in names]
        wanted = {name: types[name] for name in names}
        read = read_rows(connection, TABLE, block, wanted, measures.num_rows)
        profiles, counts = _profiles(connection, TABLE, block, columns, read)
    return Profile(
        id="",
        rows=measures.num_rows,
        block_unit=BlockUnit.DAY if by_day else BlockUnit.ROWS,
        blocks=_block_count(counts),
        label=None,
        event_time=None,
        features={profile.name: profile for profile in profiles},
        counts=counts,
    )


def _profiles(
    connection: Any, relation: str, block: str, columns: Sequence[Column], read: Rows
) -> tuple[list[FeatureProfile], dict[str, FeatureCounts]]:
    """The profiles of columns of a relation, of which some rows were `read`, and counts: of bins, and of the digits of
    numbers."""
    facts = facts_of(connection, relation, block, {one.name: one.type for one in columns}, read)
    blocks = block_number(connection, relation, block, read)
    found, digits = [], {}
    described = describe(connection, columns, facts, blocks)
    counts = count_rows(connection, relation, block, described, {}, read)
    for profile in described:
        if profile.bins is None:
            found.append(profile)
            continue
        sample = read.sample(profile.name)
        clusters = tail_clusters(profile.bins, counts[profile.name])
        profile = replace(profile, points=weigh(sample), clusters=clusters)
        if isinstance(sample, ValueSample):
            deviations = deviations_of(sample) if isinstance(profile.bins, NumericBins) else None
            profile = replace(profile, reaches=reaches_of(sample), deviations=deviations)
            digits[digits_name(profile.name)] = digits_of(sample)
        found.append(profile)
    return found, {**counts, **digits}


def _pairs(
    read: Rows, profiles: Sequence[FeatureProfile], counts: Mapping[str, FeatureCounts], event_time: str | None
) -> tuple[Association, ...]:
    """The inputs that go together, and those that go with the time of day of the events."""
    chosen = {one.name: one for one in chosen_columns(profiles)}
    blocks, levels = leveled(read, chosen, counts, event_time)
    return find_associations([*levels], [*levels.values()], blocks)


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
