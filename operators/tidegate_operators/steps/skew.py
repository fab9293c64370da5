"""Judges what an engine saw against what a version was trained on, and writes the report.

In come the version directory with its training profile and the inference log's root; out go the findings, as HTML and
JSON, to people and to the monitor.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_serving.contract.errors import NotFound
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
    report: Path | None = None,
) -> Skew:
    """Compares the logged primary requests of the version in `directory` with its training profile.

    `since` (inclusive) and `until` (exclusive) bound the time of the event; `report` is the directory for the page. NotFound
    where the version has no profile or there is no log.
    """
    from tidegate_validation.report import write_report
    from tidegate_validation.skew import report_on_log

    id = read_manifest(directory)[0].id
    profile = profile_directory(directory)
    if not profile.is_dir():
        raise NotFound(f"{directory} has no training profile: publish {id} with its training data")
    if not log_root.is_dir():
        raise NotFound(f"inference log {log_root} is missing: name the engine's log path, see `tidegate status`")
    found = report_on_log(profile, log_root, model=id.name, version=id.version, since=since, until=until)
    return Skew(found, None if report is None else write_report(found, report))
