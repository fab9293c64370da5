"""Judges what an engine saw against what a version was trained on, and writes the report.

The findings go to people, as HTML and JSON, and to the monitor.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput, NotFound, Refused
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import profile_directory

if TYPE_CHECKING:
    from tidegate_validation.skew import SkewReport


@dataclass(frozen=True, slots=True)
class Skew:
    """The findings, and the page that shows them, None where none was asked for."""

    report: SkewReport
    page: Path | None


def skew(
    *,
    directory: Path,
    log_root: Path,
    since: datetime | None = None,
    until: datetime | None = None,
    received_since: datetime | None = None,
    report: Path | None = None,
) -> Skew:
    """Compares the logged primary requests of the version in `directory` with its training profile.

    `since` (inclusive) and `until` (exclusive) bound the time of the event, `received_since` the time of arrival, for
    events that are sent again; `report` is the directory for the page.
    NotFound where the version has no profile or there is no log.
    """
    from tidegate_validation.report import write_report
    from tidegate_validation.skew import report_on_log

    identity = read_manifest(directory)[0].id
    profile = profile_directory(directory)
    if not profile.is_dir():
        raise NotFound(f"{directory} has no training profile: publish {identity} with its training data")
    if not log_root.is_dir():
        raise NotFound(f"inference log {log_root} is missing: name the engine's log path, see `tidegate status`")
    found = report_on_log(
        profile,
        log_root,
        model=identity.name,
        version=identity.version,
        since=since,
        until=until,
        received_since=received_since,
    )
    return Skew(found, None if report is None else write_report(found, report))


def require_no_skew(found: Skew) -> Skew:
    """The same, or Refused with the report's sentence where its outcome is neither PASS nor WARN."""
    if found.report.outcome not in (Outcome.PASS, Outcome.WARN):
        raise Refused(found.report.sentence)
    return found


def parse_time(text: str) -> datetime | None:
    """An ISO 8601 time, UTC where it names no zone; None for an empty text. InvalidInput for anything else."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{text!r} is no time: write it like 2013-06-05 or 2013-06-05T12:00:00+00:00") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)
