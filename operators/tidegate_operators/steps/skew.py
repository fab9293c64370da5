"""Judges what is served against what a version was trained on, from the log or from two tables, and writes the report.

The findings go to people, as HTML and JSON, and to the monitor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.reference import find_reference
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput, Refused
from tidegate_serving.contract.formats import MALFORMED
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.plain_file import check_given
from tidegate_serving.files import require_writable

if TYPE_CHECKING:
    from tidegate_validation.skew import LeftOut, SkewReport


_TABLE_OPTIONS = ("time", "keys", "prediction", "label", "ignore", "columns")
_LOG_OPTIONS = ("since", "until", "received_since", "watch", "windows_per_alarm", "previous", "labels")


@dataclass(frozen=True, slots=True)
class Skew:
    """The findings, and the page that shows them, None where none was asked for."""

    report: SkewReport
    page: Path | None


def skew(
    reference: Any = None,
    current: Any = None,
    *,
    directory: Path | str | None = None,
    log_root: Path | str | None = None,
    report: Path | str | None = None,
    **options: Any,
) -> Skew:
    """Compares two tables, or what an engine logged with what a version was trained on; writes the page into `report`.

    Two tables: `reference` is what training saw, `current` what is asked now, with the options of `skew_of_tables`:
    time, keys, prediction, label, ignore and columns. A log: `directory` of the version and `log_root`, with the
    options of `skew_of_log`: since, until, received_since, watch, windows_per_alarm, previous and labels. InvalidInput
    for a mixture of both.
    """
    tables, log = reference is not None and current is not None, directory is not None and log_root is not None
    if tables == log or (tables and (directory or log_root)) or (log and not (reference is None and current is None)):
        raise InvalidInput("give either reference and current, two tables, or directory and log_root")
    known = _TABLE_OPTIONS if tables else _LOG_OPTIONS
    for name in options:
        if name not in known:
            raise InvalidInput(
                f"{name} means nothing for {'two tables' if tables else 'a log'}: use {', '.join(known)}"
            )
    if directory is not None and log_root is not None:
        page = None if report is None else Path(report)
        return skew_of_log(directory=Path(directory), log_root=Path(log_root), report=page, **options)
    return skew_of_tables(reference, current, report=report, **options)


def skew_of_tables(
    reference: Any,
    current: Any,
    *,
    time: str | None = None,
    keys: Sequence[str] = (),
    prediction: str | None = None,
    label: str | None = None,
    ignore: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    report: Path | str | None = None,
) -> Skew:
    """Compares `current` with `reference`, each a path (Parquet, CSV, Arrow), a pattern of paths, a table of pandas,
    polars, DuckDB or Arrow, or another server's log: KServe's CloudEvents (JSON) or TensorFlow Serving's PredictionLogs
    (TFRecord).

    `time` names the column of event times, `keys` those that name one example in both tables, `prediction` and `label`
    the columns of those, `ignore` columns to leave out; `columns` says what a column of the reference is called in the
    current table; `report` is the directory for the page.
    """
    from tidegate_validation.report import write_report
    from tidegate_validation.skew import Columns, report_on_tables, without

    _need_tables(reference, current)
    if report is not None:
        require_writable(Path(report))
    known = Columns(time, tuple(keys), prediction, label, tuple(ignore))
    asked, left_out = _as_asked(reference, current, columns or {}, known.named())
    found = report_on_tables(reference, asked, known)
    if left_out is not None:
        found = without(found, left_out)
    return Skew(found, None if report is None else write_report(found, Path(report)))


def _need_tables(reference: Any, current: Any) -> None:
    """InvalidInput for a version and the log of an engine, which are compared with each other in another way."""
    from tidegate_serving.inference_log.reader import is_engine_log

    if isinstance(reference, Path | str) and (Path(reference) / FILE_NAME).is_file():
        raise InvalidInput(
            f"{reference} is a version's directory, not a table: it is compared with the log of an engine, so leave "
            "the second table out and name the log (--log)"
        )
    if isinstance(current, Path | str) and is_engine_log(Path(current)):
        raise InvalidInput(
            f"{current} is the log of an engine, which is compared with the directory of the version that answered: "
            f"`tidegate skew models/NAME/VERSION --log {current}`"
        )


def _as_asked(
    reference: Any, current: Any, columns: Mapping[str, str], named: Sequence[str]
) -> tuple[Any, LeftOut | None]:
    """The current table with the reference's names, and what of another server's log was left out; of what such a log
    adds only what is asked for is there."""
    from tidegate_operators.steps.foreign_logs import ADDED, as_rows, is_foreign_log
    from tidegate_validation.tables import as_table

    foreign, left_out = is_foreign_log(current), None
    if not foreign and not columns:
        return current, None
    before = as_table(reference, "reference data").column_names
    if foreign:
        table, left_out = as_rows(current, {*before, *columns.values()})
    else:
        table = as_table(current, "current data")
    theirs = {other: name for name, other in columns.items()}
    for other in theirs:
        if other not in table.column_names:
            raise InvalidInput(f"the current data has no column {other!r}: it has {', '.join(table.column_names)}")
    table = table.rename_columns([theirs.get(name, name) for name in table.column_names])
    unasked = [name for name in ADDED if foreign and name in table.column_names and name not in named]
    return table.drop_columns([name for name in unasked if name not in before]), left_out


def skew_of_log(
    *,
    directory: Path,
    log_root: Path,
    since: datetime | None = None,
    until: datetime | None = None,
    received_since: datetime | None = None,
    watch: Path | None = None,
    windows_per_alarm: int = 365,
    previous: Path | None = None,
    labels: Any = None,
    report: Path | None = None,
) -> Skew:
    """Compares the logged primary requests of the version in `directory` with its training profile, or with the window
    that was accepted in its place (`accept_reference`).

    `since` (inclusive) and `until` (exclusive) bound the time of the event, `received_since` the time of arrival, for
    events that are sent again; `watch` is a folder that remembers earlier windows, to tell drift over them with at most
    one false alarm per `windows_per_alarm` windows; `previous` is the directory of the version that a rollback would go
    to: where a feature fails, both answer logged rows in a sandbox, to say whether that would help; `labels` are those
    known by now, as for `read_labels`; `report` is the directory for the page.
    NotFound where the version has no profile or there is no log.
    """
    from tidegate_serving.inference_log.reader import check_log
    from tidegate_validation.report import write_report
    from tidegate_validation.skew import report_on_log

    identity = read_manifest(directory)[0].id
    profile, compared_with = find_reference(directory)
    check_log(log_root)
    if report is not None:
        require_writable(report)
    found = report_on_log(
        profile,
        log_root,
        model=identity.name,
        version=identity.version,
        since=since,
        until=until,
        received_since=received_since,
        watch=watch,
        windows_per_alarm=windows_per_alarm,
        versions=None if previous is None else (directory, previous),
        labels=None if labels is None else read_labels(labels),
    )
    found = replace(found, title=f"{found.title}, against {compared_with}")
    return Skew(found, None if report is None else write_report(found, report))


def read_labels(source: Any) -> Any:
    """Labels as a pyarrow.Table with the columns request_id and label, and where there are such row and at.

    `source` is a file of JSON lines, as the hub takes and gives them (`/api/v1/labels`), or anything that tables are
    read from. Of several for one request the newest counts. InvalidInput for what cannot be read.
    """
    import pyarrow as pa

    from tidegate_validation.tables import as_table

    path = Path(source) if isinstance(source, str | Path) else None
    if path is None or path.suffix not in (".jsonl", ".ndjson"):
        return as_table(source, "labels")
    check_given(path, "labels", "check the path")
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        names = dict.fromkeys(name for line in lines for name in dict(line))
        return pa.table({name: [line.get(name) for line in lines] for name in names})
    except MALFORMED as error:
        raise InvalidInput(
            f'labels {path} cannot be read ({error}): write lines such as {{"request_id": "a1", "label": 1}}'
        ) from error


def require_no_skew(found: Skew) -> Skew:
    """The same, or Refused with the report's sentence where its outcome is neither PASS nor WARN: a feature differs, or
    nothing could be told of any."""
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
