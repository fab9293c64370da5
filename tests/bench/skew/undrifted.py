"""False alarms on days that are like the others, power on small shifts, and how often nothing could be told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import optimize, stats
from tests.bench.rows import Row
from tests.bench.skew import data
from tests.bench.skew.planted import judge
from tests.bench.skew.sizes import Sizes

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

_LATE = (7, 12)


def flights(sizes: Sizes) -> list[Row]:
    """Seven random days of spring against its other days."""
    return _of_months(1, 5, sizes.undrifted, "January to May")


def record(sizes: Sizes) -> list[Row]:
    """The same on July to December, which nothing was tuned on: taken once, when it is named."""
    return _of_months(*_LATE, sizes.undrifted, "July to December")


def _of_months(first: int, last: int, seeds: int, where: str) -> list[Row]:
    rows = data.months(first, last)
    reports = [judge(*data.split_days(rows, data.random_days(rows, 7, 1000 + seed))) for seed in range(seeds)]
    return [*_alarms(reports, f"undrifted flights, {where}"), *_thin(rows, min(seeds, 40), where)]


def _thin(rows: pd.DataFrame, seeds: int, where: str) -> list[Row]:
    """Seven days of sixty rows each."""
    reports = []
    for seed in range(seeds):
        before, now = data.split_days(rows, data.random_days(rows, 7, 5000 + seed))
        now = now.groupby(data.day_numbers(now), group_keys=False).sample(60, random_state=seed)
        reports.append(judge(before, now.sort_values(data.TIME)))
    return _alarms(reports, f"undrifted flights, {where}, 60 rows a day")


def _alarms(reports: Sequence[SkewReport], what: str) -> list[Row]:
    failed = [_has(one, Outcome.FAIL) for one in reports]
    warned = [_has(one, Outcome.WARN) for one in reports]
    undecided = [share for one in reports for share in _undecided(one)]
    limit = 0.075 * len(reports)
    rows = [
        Row(
            f"{what}: reports with a FAIL",
            sum(failed),
            f"of {len(reports)}",
            f"at most {limit:g}",
            sum(failed) <= limit,
        ),
        Row(f"{what}: reports with a WARN", sum(warned), f"of {len(reports)}", "reported", None),
        Row(
            f"{what}: columns undecided",
            100 * float(np.mean(undecided)),
            "%",
            "at most 5",
            bool(np.mean(undecided) <= 0.05),
        ),
    ]
    blamed = [
        f"{one.subject} {one.check}" for report in reports for one in report.findings if one.outcome is Outcome.FAIL
    ]
    return [*rows, *(Row(f"  {name}", blamed.count(name), "FAILs", "-", None) for name in sorted(set(blamed)))]


def _has(report: SkewReport, outcome: Outcome) -> bool:
    return any(one.outcome is outcome for one in report.findings)


def _undecided(report: SkewReport) -> list[bool]:
    names = {one.subject for one in report.findings}
    return [report.feature(name).outcome is Outcome.INCONCLUSIVE for name in names]


def streams(sizes: Sizes) -> list[Row]:
    """Streams whose days resemble each other, windows of seven days in a row, as they are and with a shift of 0.5."""
    found = []
    for correlation in (0.0, 0.5, 0.9):
        plain, shifted = [], []
        for seed in range(sizes.streams):
            rows = data.stream(seed, 97, 200, correlation)
            before, now = data.split_days(rows, np.arange(16_090, 16_097))
            profile = profile_table(as_table(before, "days before"), COLUMNS, now.columns.tolist())
            plain.append(_judge(profile, now))
            shifted.append(_judge(profile, now.assign(x0=now["x0"] + 0.5)).feature("x0").outcome)
        what = f"streams with correlation {correlation:g}"
        found += _alarms(plain, what)
        for word, outcomes in (("FAIL or WARN", (Outcome.FAIL, Outcome.WARN)), ("FAIL", (Outcome.FAIL,))):
            power = 100 * float(np.mean([one in outcomes for one in shifted]))
            held = None if correlation > 0.5 else power >= 80
            found.append(
                Row(f"{what}: shift of 0.5 found, {word}", power, "%", "at least 80" if held is not None else "-", held)
            )
        for words, margin in (("", 0.0), (" beyond the margin", SkewRule().margin)):
            best = 100 * _best_power(correlation, margin)
            found.append(
                Row(
                    f"{what}: found{words} by a z-test that knows all but the shift",
                    best,
                    "%",
                    "the most there is",
                    None,
                )
            )
    return found


def _best_power(correlation: float, margin: float, shift: float = 0.5, spread: float = 0.3) -> float:
    """How often that shift of the last 7 of 97 days of 200 rows is surely beyond `margin` standard deviations,
    two-sided and corrected for 8 columns by Bonferroni (what Benjamini and Hochberg ask of one column among unshifted
    ones), where days' variance and correlation are known: generalised least squares, the most powerful unbiased test
    there is of a normal level. A WARN needs a margin of 0, a FAIL that of the rule."""
    days = np.arange(97)
    covariance = spread**2 * correlation ** np.abs(days[:, None] - days[None]) + np.eye(97) / 200
    design = np.column_stack([np.ones(97), days >= 90])
    error = np.linalg.inv(design.T @ np.linalg.solve(covariance, design))[1, 1] ** 0.5
    edge = margin * (1 + spread**2) ** 0.5

    def beyond(limit: float, true: float) -> float:
        return float(stats.norm.sf((limit - true) / error) + stats.norm.cdf((-limit - true) / error))

    limit = optimize.brentq(lambda limit: beyond(limit, edge) - 0.05 / 8, 0.0, 10.0)
    return beyond(limit, shift)


COLUMNS = Columns(time=data.TIME)


def _judge(profile: Profile, now: pd.DataFrame) -> SkewReport:
    return report_on_table(profile, as_table(now, "days"), COLUMNS)


def small_shifts(sizes: Sizes) -> list[Row]:
    """A shift of 0.3 standard deviations where days differ little, and where they differ much."""
    quiet: list[Finding] = []
    loud: list[Finding] = []
    for seed in range(sizes.streams):
        for spread, kept in ((0.05, quiet), (0.5, loud)):
            rows = data.stream(seed, 97, 200, 0.0, spread)
            before, now = data.split_days(rows, np.arange(16_090, 16_097))
            shift = 0.3 * before["x0"].std()
            profile = profile_table(as_table(before, "days before"), COLUMNS, now.columns.tolist())
            kept.append(_judge(profile, now.assign(x0=now["x0"] + shift)).feature("x0"))
    found = 100 * float(np.mean([one.outcome in (Outcome.FAIL, Outcome.WARN) for one in quiet]))
    told = [one.outcome in (Outcome.FAIL, Outcome.WARN) or (one.smallest_detectable or 0) > 0.3 for one in loud]
    said = 100 * float(np.mean(told))
    return [
        Row("shift of 0.3, days differ little: found", found, "%", "at least 95", found >= 95),
        Row("shift of 0.3, days differ much: found, or said what could not be seen", said, "%", "all", said == 100),
    ]
