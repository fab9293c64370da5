"""The demo's skew reports from the inference log: of June, of a day in the wrong unit, and of the same day rightly.

Both days carry the same event times, so each report takes what arrived while its day was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidegate_flights.engine import wait_until_settled
from tidegate_flights.folders import JUNE, RIGHT_DAY, WRONG_DAY, Folders
from tidegate_flights.hub import HubProcess
from tidegate_flights.options import DemoOptions
from tidegate_flights.story import Story
from tidegate_flights.summary import DayReport
from tidegate_flights.traffic import ReplayResult, TrafficMaker
from tidegate_operators.steps import Skew, skew


@dataclass(frozen=True)
class SkewDays:
    """What the reports say, where June's report lies, and what the client counted while the two days were sent."""

    june: Path
    wrong: DayReport
    clean: DayReport
    replays: tuple[ReplayResult, ...]


@dataclass(frozen=True)
class SkewReports:
    """Makes reports about one version from one log, and sends them to the hub."""

    folders: Folders
    log_root: Path
    control: str
    hub: HubProcess

    def june(self, version: int, begun: datetime) -> Skew:
        """What the version answered to ordinary clients since then."""
        return self._report(JUNE, version, begun)

    def day(self, name: str, version: int, traffic: TrafficMaker) -> tuple[Skew, ReplayResult]:
        """Sends the rows of that name once and reports on what arrived meanwhile."""
        begun = datetime.now(UTC)
        replay = traffic.day(name)
        return self._report(name, version, begun), replay

    def _report(self, name: str, version: int, received_since: datetime) -> Skew:
        wait_until_settled(self.control)
        directory = self.folders.version(version)
        found = skew(
            directory=directory,
            log_root=self.log_root,
            received_since=received_since,
            report=self.folders.report(name),
        )
        self.hub.skewed(found.report.to_dict(), received_since, datetime.now(UTC))
        return found


def report_skew(
    reports: SkewReports, traffic: TrafficMaker, options: DemoOptions, june_since: datetime, story: Story
) -> SkewDays:
    """June is judged against version 2, the two days against the version that serves now."""
    column, final_version = options.skew_column, options.final_version
    june = reports.june(2, june_since)
    story.note(f"June against version 2's training: {june.report.outcome.value}. {june.report.sentence}")
    wrong, sent_wrongly = reports.day(WRONG_DAY, final_version, traffic)
    wrong_day = about(column, wrong)
    story.refused(f"one day with {column} in another unit: {wrong_day.outcome}. {wrong_day.sentence}")
    clean, sent_rightly = reports.day(RIGHT_DAY, final_version, traffic)
    clean_day = about(column, clean)
    story.good(f"the same day sent rightly: {clean_day.outcome}. {clean_day.sentence}")
    assert june.page is not None
    return SkewDays(june.page, wrong_day, clean_day, (sent_wrongly, sent_rightly))


def about(column: str, found: Skew) -> DayReport:
    """What a report says about one column."""
    finding = found.report.feature(column)
    factor = (finding.cause or {}).get("factor")
    return DayReport(finding.outcome.value, None if factor is None else float(factor), finding.sentence)
