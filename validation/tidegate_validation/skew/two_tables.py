"""Compares any two tables: what a model was trained on (the reference) and what it is asked now (the current one).

The reference becomes a profile in memory, so that tables and the inference log are judged by the same tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.skew.columns.schema import NOT_SERVED
from tidegate_validation.skew.compare import compare
from tidegate_validation.skew.events.calendar_columns import (
    CalendarColumn,
    calendar_columns,
    distances,
    known_calendar_columns,
    told_of_calendar,
)
from tidegate_validation.skew.events.calendar_texts import (
    CalendarText,
    calendar_texts,
    known_calendar_texts,
    told_of_calendar_texts,
)
from tidegate_validation.skew.events.clocks import clocks_of, known_clocks
from tidegate_validation.skew.events.dates_in_texts import (
    as_dates,
    dates_in_texts,
    kept_in_texts,
    known_in_texts,
    told_of_writing,
    ways_of,
)
from tidegate_validation.skew.events.epochs import (
    epochs_of,
    known_epochs,
    known_without_strays,
    without_never,
    without_strays,
)
from tidegate_validation.skew.events.event_dates import (
    days_after,
    is_date,
    known_dates,
    running,
    running_dates,
    stamps_of_dates,
    told_of_dates,
    told_of_times_of_day,
    with_dates,
)
from tidegate_validation.skew.events.stamps import (
    delay_name,
    delay_of,
    delays_of,
    hour_of,
    is_stamp,
    telling_delays,
    told_of_stamps,
)
from tidegate_validation.skew.events.untimed import told_of_untimed
from tidegate_validation.skew.example_rows import with_examples
from tidegate_validation.skew.pairs import compare_pairs
from tidegate_validation.skew.report import SkewReport, make_report
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.statistics.build import profile_relation
from tidegate_validation.statistics.event_times import with_times
from tidegate_validation.statistics.nested import plain
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.relation import Relation, connected, relation_of, relation_of_table
from tidegate_validation.statistics.sql import Family, as_text, family, quote
from tidegate_validation.statistics.vectors import is_vector
from tidegate_validation.statistics.window import window_of
from tidegate_validation.tables import as_table

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 48
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name that it writes into a Parquet file: the rows' numbers, and no feature."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What columns mean where a table has no manifest to say so.

    Rows of one day of `time` resemble each other, so it makes every test surer of itself; without it rows count in the
    order in which they come. `keys` name one example in both tables, so that its values can be compared one by one;
    they are no features. `prediction` and `label` are compared like features, the label where the current table has it.
    What is in `ignore` is left out.
    """

    time: str | None = None
    keys: tuple[str, ...] = ()
    prediction: str | None = None
    label: str | None = None
    ignore: tuple[str, ...] = ()

    def named(self) -> list[str]:
        """All columns that were named to be looked at."""
        return [*self.keys, *filter(None, (self.time, self.prediction, self.label))]


def report_on_tables(
    reference: Any, current: Any, columns: Columns | None = None, rule: SkewRule | None = None
) -> SkewReport:
    """Compares `current` with `reference`, each anything that `as_table` takes: a path, a pattern of paths or a table.

    Parquet files of more than a million rows are read piece by piece, unless `keys` ask for examples one by one.
    InvalidInput where a column that was named is missing, or a table has no rows.
    """
    columns = columns or Columns()
    with connected() as connection:
        before = _without_index(relation_of(connection, "tidegate_before", reference, "reference data"), columns)
        now = _without_index(relation_of(connection, "tidegate_now", current, "current data"), columns)
        before, now = plain(before), plain(now)
        _check(before, now, columns)
        before = with_times(before, columns.time, "reference data")
        now = with_times(now, columns.time, "current data")
        before, now = before.drawn(), now.drawn()
        profile = _profile(before, columns, list(now.types), now.rows)
        untimed = [
            *told_of_untimed(before, columns.time, "reference data"),
            *told_of_untimed(now, columns.time, "current data"),
        ]
        further = [one for one in untimed if one.outcome is Outcome.WARN]
        if columns.keys:
            further += compare_pairs(_examples(before, columns), _examples(now, columns), columns.keys, columns.time)
        title = f"{_name(current, 'the current table')} against {_name(reference, 'the reference')}"
        report = _report(profile, now, columns, rule, further)
        return replace(_beside_features(report, [one for one in untimed if one not in further]), title=title)


def profile_table(before: pa.Table, columns: Columns, served: Sequence[str]) -> Profile:
    """The profile of a reference; a label that is not among the `served` columns is left out."""
    with connected() as connection:
        relation = relation_of_table(connection, "tidegate_before", before, "reference data")
        relation = plain(_without_index(relation, columns))
        return _profile(with_times(relation, columns.time, "reference data"), columns, served, None)


def report_on_table(
    profile: Profile, now: pa.Table, columns: Columns, rule: SkewRule | None = None, further: Sequence[Finding] = ()
) -> SkewReport:
    """The report on a table against a profile that `profile_table` made, with `further` findings about its columns."""
    with connected() as connection:
        relation = relation_of_table(connection, "tidegate_now", now, "current data")
        relation = plain(_without_index(relation, columns))
        return _report(profile, with_times(relation, columns.time, "current data"), columns, rule, further)


def _profile(before: Relation, columns: Columns, served: Sequence[str], window_rows: int | None) -> Profile:
    texts = dates_in_texts(before, _features(before, columns))
    before = as_dates(before, texts)
    before = with_dates(before, stamps_of_dates(before, _stamps(before, columns)))
    further: dict[str, str] = {}
    calendar: list[CalendarColumn] = []
    written: list[CalendarText] = []
    if columns.time is not None:
        stamps, out = _stamps(before, columns), _left_out(before, columns)
        dates = running(before, [*stamps, *_dates(before, columns)], columns.time)
        further = telling_delays(before, stamps, columns.time, dates)
        numbers = [name for name in before.types if name not in out and name != columns.time]
        calendar = calendar_columns(before, numbers, columns.time)
        further |= distances(calendar, columns.time, before.types)
        taken = {*texts, *(one.column for one in calendar)}
        written = calendar_texts(before, [name for name in numbers if name not in taken], columns.time)
        further |= {one.name(columns.time): one.off(columns.time, before.types) for one in written}
        clocks = clocks_of(before, numbers, columns.time)
        epochs = epochs_of(before, numbers, columns.time)
        others = [name for name in numbers if name not in epochs]
        further |= without_strays(before, epochs) | without_never(before, others, columns.time)
        clocks = clocks | epochs
        further |= {delay_name(name, columns.time): sql for name, sql in clocks.items()}
        further |= {name: days_after(name, columns.time, before.types) for name in dates if name not in stamps}
    relation = _prepared(before, columns, further, [*calendar, *written])
    features = [name for name in relation.types if name != columns.time]
    if columns.label is not None and columns.label not in served:
        features.remove(columns.label)
    found = profile_relation(relation, features=features, label=None, event_time=columns.time, window_rows=window_rows)
    return kept_in_texts(found, texts)


def _report(
    profile: Profile, now: Relation, columns: Columns, rule: SkewRule | None, further: Sequence[Finding]
) -> SkewReport:
    texts, came = known_in_texts(profile, _features(now, columns)), now
    written = ways_of(now, profile, texts)
    now = as_dates(now, written.keys(), written)
    rule, alone = rule or SkewRule(), known_dates(profile, _stamps(now, columns))
    further = [*further, *told_of_times_of_day(now, alone, rule.unseen_floor)]
    now = with_dates(now, alone)
    delays, clocks, added = delays_of(profile, columns.time), dict[str, str](), dict[str, str]()
    dates, calendar, texts_of_dates = list[str](), list[CalendarColumn](), list[CalendarText]()
    if columns.time is not None:
        clocks = known_clocks(profile, list(delays.values()), now, columns.time)
        known = {delay_name(stamp, columns.time): stamp for stamp in _stamps(now, columns)}
        added = {name: delay_of(stamp, columns.time, now.types) for name, stamp in known.items() if name in delays}
        stamps = {*delays.values()} - clocks.keys()
        epochs = known_epochs(profile, stamps, now, columns.time)
        added |= {delay_name(name, columns.time): sql for name, sql in {**clocks, **epochs}.items()}
        added |= known_without_strays(profile, stamps, now)
        dates = running_dates(profile, _dates(now, columns))
        added |= {name: days_after(name, columns.time, now.types) for name in dates}
        calendar = known_calendar_columns(profile.features, columns.time)
        added |= distances(calendar, columns.time, now.types)
        texts_of_dates = known_calendar_texts(profile, columns.time)
        served = [one for one in texts_of_dates if one.column in now.types]
        added |= {one.name(columns.time): one.off(columns.time, now.types) for one in served}
    relation = _prepared(now, columns, added, [*calendar, *texts_of_dates])
    window = window_of(relation, event_time=columns.time, like=profile.rows_per_block)
    comparison = compare(profile, window, rule, derived=added.keys())
    of_dates = [*(one.column for one in calendar), *(one.column for one in texts_of_dates)]
    measured = {*added, *_stamps(now, columns), *of_dates}
    comparison = with_examples(comparison, profile, window, left_out=measured)
    comparison = told_of_stamps(comparison, profile, relation, delays, columns.time or "", clocks)
    comparison = told_of_dates(comparison, profile, now, dates, columns.time or "")
    comparison = told_of_calendar(comparison, profile, now, calendar, columns.time or "")
    comparison = told_of_calendar_texts(comparison, profile, texts_of_dates, columns.time or "", rule.unseen_floor)
    comparison = told_of_writing(comparison, came, texts, written, rule.unseen_floor)
    findings = {name: [_with_cure(one, now) for one in found] for name, found in comparison.findings.items()}
    for finding in further:
        findings.setdefault(finding.subject, []).insert(0, finding)
    return make_report(profile, replace(comparison, findings=findings), "the current table")


def _with_cure(finding: Finding, now: Relation) -> Finding:
    """A column of the reference alone may be no feature: no manifest says so here."""
    if not finding.sentence.endswith(NOT_SERVED) or finding.subject.partition(".")[0] in now.types:
        return finding
    sentence = f"{finding.sentence}: name it with --label where it is the label, or leave it out with --ignore"
    return replace(finding, sentence=sentence)


def _without_index(relation: Relation, columns: Columns) -> Relation:
    """Without the index that pandas wrote, unless it is named."""
    named = {*columns.named(), *columns.ignore}
    kept = [name for name in relation.types if name in named or not _PANDAS_INDEX.fullmatch(name)]
    if not kept or len(kept) == len(relation.types):
        return relation
    return relation.view(f"{relation.name}_columns", {name: quote(name) for name in kept})


def _prepared(
    relation: Relation, columns: Columns, further: Mapping[str, str], calendar: Sequence[CalendarColumn | CalendarText]
) -> Relation:
    """Without what is to be left out and columns of the `calendar`, and with `further` columns, SQL by name, which may
    take the place of their own; of time stamps other than the event's the time of day remains, in hours."""
    out = [*_left_out(relation, columns), *(one.column for one in calendar)]
    stamps = _stamps(relation, columns)
    kept = {name: hour_of(name) if name in stamps else quote(name) for name in relation.types if name not in out}
    return relation.view(f"{relation.name}_prepared", {**kept, **further})


def _features(relation: Relation, columns: Columns) -> list[str]:
    """What is compared: all columns but the event's time and what is to be left out."""
    out = (*_left_out(relation, columns), columns.time)
    return [name for name in relation.types if name not in out]


def _stamps(relation: Relation, columns: Columns) -> list[str]:
    """Columns of time stamps beside the event's."""
    return [name for name in _features(relation, columns) if is_stamp(relation.types[name])]


def _dates(relation: Relation, columns: Columns) -> list[str]:
    """Columns of dates beside the event's."""
    return [name for name in _features(relation, columns) if is_date(relation.types[name])]


def _examples(relation: Relation, columns: Columns) -> pa.Table:
    """The rows in memory, in their order, without what is ignored: bytes as texts, all lists of numbers alike."""
    out = set(columns.ignore).difference(columns.named())
    wanted = {name: _plain_value(name, kind) for name, kind in relation.types.items() if name not in out}
    selected = ", ".join(f"{sql} AS {quote(name)}" for name, sql in wanted.items())
    found = relation.connection.sql(f"SELECT {selected} FROM {relation.name}").to_arrow_table()
    return as_table(found, "a table of examples")


def _plain_value(name: str, kind: str) -> str:
    if is_vector(kind):
        number = kind.split("[")[0]
        return f"CAST({quote(name)} AS {number if family(number) is Family.INTEGER else 'DOUBLE'}[])"
    return as_text(name, kind) if family(kind) is Family.TEXT else quote(name)


def _check(before: Relation, now: Relation, columns: Columns) -> None:
    for relation, what in ((before, "reference data"), (now, "current data")):
        if relation.rows == 0:
            raise InvalidInput(f"{what} has no rows: give some to compare")
        wanted = [name for name in columns.named() if not (relation is now and name == columns.label)]
        missing = [name for name in wanted if name not in relation.types]
        if missing:
            raise InvalidInput(f"{what} has no column {missing[0]!r}: it has {', '.join(relation.types)}")
    for name in columns.ignore:
        if name not in before.types and name not in now.types:
            raise InvalidInput(f"no table has the column {name!r} that is to be ignored: check its name")


def _left_out(relation: Relation, columns: Columns) -> list[str]:
    wanted: Sequence[str] = [name for name in (*columns.ignore, *columns.keys) if name != columns.time]
    return [name for name in relation.types if name in wanted]


def _name(data: Any, otherwise: str) -> str:
    text = str(data) if isinstance(data, str) or hasattr(data, "__fspath__") else otherwise
    return text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}"


def _beside_features(report: SkewReport, told: list[Finding]) -> SkewReport:
    """The report with findings that pass and are about no feature, so that they do not count as one."""
    sentence = " ".join((report.sentence, *(f"{one.sentence}." for one in told)))
    return replace(report, sentence=sentence, findings=(*report.findings, *told))
