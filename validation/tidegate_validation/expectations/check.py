"""The expectations gate: checks data against the suites of a version, or suites inferred from its training profile.

Rows are checked on a bounded sample, statistics over all rows; Data Docs are written for people.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.expectations.expectation import Expectation
from tidegate_validation.expectations.finding import Result, absent, raised_in, row_findings, statistic_findings
from tidegate_validation.expectations.infer import ROW_COUNTS, checked_features, of_row_count
from tidegate_validation.expectations.rule import ExpectationRule
from tidegate_validation.expectations.run import Runner
from tidegate_validation.expectations.statistics_table import statistics_of
from tidegate_validation.expectations.suite import Suites
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.tables import is_text


@dataclass(frozen=True, slots=True)
class DataSet:
    """A pyarrow.Table to check, its name for sentences, and the profile that it should be like.

    `suites` are those that the profile's version carries, None to infer them; without a profile there must be some, and
    of the statistics only the number of rows is known. InvalidInput without either.
    """

    name: str
    table: Any
    profile: Profile | None
    suites: Suites | None = None

    def __post_init__(self) -> None:
        if self.profile is None and self.suites is None:
            raise InvalidInput(f"nothing is expected of the {self.name}: give a profile, or suites")

    @property
    def features(self) -> list[FeatureProfile]:
        """Those that expectations are about."""
        return [] if self.profile is None else checked_features(self.profile)

    def counting(self, rule: ExpectationRule) -> tuple[Suites, bool]:
        """The suites that count, and whether they are the version's own."""
        if self.suites is not None and (rule.own_suite or self.profile is None):
            return self.suites, True
        return Suites.inferred(self.profile, rule) if self.profile is not None else Suites(()), False


def check_data(data_sets: Sequence[DataSet], rule: ExpectationRule, docs: Path | None) -> list[Finding]:
    """Runs the suites; a finding for each expectation that is not met or cannot be checked, one for those that are.

    `docs` is the folder for Data Docs, None for no docs. An exception inside an expectation is an ERROR; InvalidInput
    for an expectation that Great Expectations does not know.
    """
    runner = Runner(docs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [finding for data in data_sets for finding in _check(runner, data, rule)]


def _check(runner: Runner, data: DataSet, rule: ExpectationRule) -> list[Finding]:
    counting, own = data.counting(rule)
    suites = _routed(counting)
    rows, lacking = _checkable(suites.rows, data.table.column_names)
    results = list(zip(rows, runner.run(data.name, _frame(data, rule, rows), rows), strict=True))
    found = [absent(data.name, column, expectations) for column, expectations in lacking.items()]
    found += row_findings(data.name, results)
    told = _statistics(runner, data, suites, rule)
    found += statistic_findings(data.name, told)
    met = sum(bool(result["success"]) and raised_in(result) is None for _, result in [*results, *told])
    asked = len(suites.rows) + len(told)
    whose = "its version's own suite" if own else "the training profile"
    sentence = f"the {data.name} meets {met} of {asked} expectations of {whose}"
    return [*found, Finding("expectations", data.name, *_all_told(asked, sentence), number=float(met))]


def _all_told(asked: int, sentence: str) -> tuple[Outcome, str]:
    if asked:
        return Outcome.PASS, sentence
    return Outcome.INCONCLUSIVE, f"{sentence}, so nothing was looked at: give the suite an expectation"


def _routed(suites: Suites) -> Suites:
    """Counts of rows are asked of all rows, not of the sample."""
    counts = [one for one in suites.rows if one.type in ROW_COUNTS]
    rows = tuple(one for one in suites.rows if one.type not in ROW_COUNTS)
    return Suites(rows, (*suites.statistics, *(of_row_count(one) for one in counts)))


def _checkable(
    expectations: Sequence[Expectation], columns: Sequence[str]
) -> tuple[list[Expectation], dict[str, list[Expectation]]]:
    """Expectations whose columns are all there, and the others by the first column that is not."""
    there: list[Expectation] = []
    lacking: dict[str, list[Expectation]] = {}
    for one in expectations:
        missing = [column for column in one.columns if column not in columns]
        if missing:
            lacking.setdefault(missing[0], []).append(one)
        else:
            there.append(one)
    return there, lacking


def _statistics(runner: Runner, data: DataSet, suites: Suites, rule: ExpectationRule) -> list[Result]:
    """Results over the statistics table; features that the data lack are the row suite's business."""
    import pandas as pd

    found = statistics_of(data.table, data.features)
    wanted = [one for one in suites.statistics if all(column in found for column in one.columns)]
    if not wanted:
        return []
    frame = pd.DataFrame({name: [value] for name, value in found.items()}, dtype="float64")
    return list(zip(wanted, runner.run(f"statistics of the {data.name}", frame, wanted), strict=True))


def _frame(data: DataSet, rule: ExpectationRule, expectations: Sequence[Expectation]) -> Any:
    import numpy as np
    import pyarrow as pa

    spoken_of = {column for one in expectations for column in one.columns} | {feature.name for feature in data.features}
    table = data.table.select([name for name in data.table.column_names if name in spoken_of])
    if table.num_rows > rule.max_rows:
        chosen = np.sort(np.random.default_rng(13).choice(table.num_rows, rule.max_rows, replace=False))
        table = table.take(pa.array(chosen))
    fields = [field.with_type(pa.string()) if is_text(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields)).to_pandas()
