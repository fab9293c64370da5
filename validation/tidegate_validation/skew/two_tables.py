"""Compares any two tables: what a model was trained on (the reference) and what it is asked now (the current one).

The reference becomes a profile in memory, so that tables and the inference log are judged by the same tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate_serving.admission import Finding
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.skew.clocks import clocks_of, known_clocks, with_clock_delays
from tidegate_validation.skew.compare import compare
from tidegate_validation.skew.pairs import compare_pairs
from tidegate_validation.skew.report import SkewReport, make_report
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.skew.stamps import delay_name, delays_of, telling_delays, told_of_stamps, with_delays
from tidegate_validation.statistics.build import make_profile
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.window import table_window
from tidegate_validation.tables import as_table

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 48
_DAY = 86_400


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

    InvalidInput where a column that was named is missing, or a table has no rows.
    """
    columns = columns or Columns()
    before, now = as_table(reference, "reference data"), as_table(current, "current data")
    _check(before, now, columns)
    profile = profile_table(before, columns, now.column_names)
    pairs = compare_pairs(before, now, columns.keys, columns.time) if columns.keys else []
    title = f"{_name(current, 'the current table')} against {_name(reference, 'the reference')}"
    return replace(report_on_table(profile, now, columns, rule, pairs), title=title)


def profile_table(before: pa.Table, columns: Columns, served: Sequence[str]) -> Profile:
    """The profile of a reference; a label that is not among the `served` columns is left out."""
    table = _prepared(before, columns)
    if columns.time is not None:
        unlike = set(_stamps(before, columns)) - set(telling_delays(table, _stamps(before, columns), columns.time))
        table = table.drop_columns([delay_name(stamp, columns.time) for stamp in sorted(unlike)])
        numbers = [name for name in before.column_names if name in table.column_names and name != columns.time]
        table = with_clock_delays(table, clocks_of(before, numbers, columns.time), columns.time)
    features = [name for name in table.column_names if name != columns.time]
    if columns.label is not None and columns.label not in served:
        features.remove(columns.label)
    return make_profile(table, features=features, label=None, event_time=columns.time)


def report_on_table(
    profile: Profile, now: pa.Table, columns: Columns, rule: SkewRule | None = None, further: Sequence[Finding] = ()
) -> SkewReport:
    """The report on a table against a profile that `profile_table` made, with `further` findings about its columns."""
    table, delays, clocks = _prepared(now, columns), delays_of(profile, columns.time), dict[str, int]()
    if columns.time is not None:
        clocks = known_clocks(profile, list(delays.values()), now)
        table = with_clock_delays(table, clocks, columns.time)
        further_stamps = [delay_name(stamp, columns.time) for stamp in _stamps(now, columns)]
        table = table.drop_columns([name for name in further_stamps if name not in delays])
    with table_window(table, event_time=columns.time) as window:
        comparison = told_of_stamps(compare(profile, window, rule or SkewRule()), profile, table, delays, clocks)
    findings = {name: list(found) for name, found in comparison.findings.items()}
    for finding in further:
        findings.setdefault(finding.subject, []).insert(0, finding)
    return make_report(profile, replace(comparison, findings=findings), "the current table")


def _prepared(table: pa.Table, columns: Columns) -> pa.Table:
    """Without what is to be left out; of time stamps other than the event's the time of day remains, in hours, and the
    delay after the event."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = table.drop_columns(_left_out(table, columns))
    if columns.time is not None:
        table = with_delays(table, _stamps(table, columns), columns.time)
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.name != columns.time:
            second = pc.divide(
                pc.cast(pc.cast(table[field.name], pa.timestamp("us"), safe=False), pa.int64()), 1_000_000
            )
            hours = pc.divide(
                pc.cast(
                    pc.subtract(
                        second,
                        pc.multiply(
                            pc.cast(pc.floor(pc.divide(pc.cast(second, pa.float64()), _DAY)), pa.int64()), _DAY
                        ),
                    ),
                    pa.float64(),
                ),
                3600.0,
            )
            table = table.set_column(place, field.name, hours)
    return table


def _stamps(table: pa.Table, columns: Columns) -> list[str]:
    """Columns of time stamps beside the event's."""
    import pyarrow as pa

    out = (*_left_out(table, columns), columns.time)
    return [one.name for one in table.schema if pa.types.is_timestamp(one.type) and one.name not in out]


def _check(before: pa.Table, now: pa.Table, columns: Columns) -> None:
    for table, what in ((before, "reference data"), (now, "current data")):
        if table.num_rows == 0:
            raise InvalidInput(f"{what} has no rows: give some to compare")
        wanted = [name for name in columns.named() if not (table is now and name == columns.label)]
        missing = [name for name in wanted if name not in table.column_names]
        if missing:
            raise InvalidInput(f"{what} has no column {missing[0]!r}: it has {', '.join(table.column_names)}")
    for name in columns.ignore:
        if name not in before.column_names and name not in now.column_names:
            raise InvalidInput(f"no table has the column {name!r} that is to be ignored: check its name")


def _left_out(table: pa.Table, columns: Columns) -> list[str]:
    wanted: Sequence[str] = [name for name in (*columns.ignore, *columns.keys) if name != columns.time]
    return [name for name in table.column_names if name in wanted]


def _name(data: Any, otherwise: str) -> str:
    text = str(data) if isinstance(data, str) or hasattr(data, "__fspath__") else otherwise
    return text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}"
