"""`tidegate skew`: compares two tables, or what an engine saw with what a version was trained on."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.options import LogOf, named_engine

if TYPE_CHECKING:
    from tidegate_operators.steps import Skew
    from tidegate_serving.connection import EngineConnection


class Output(enum.StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


Reference = Annotated[
    str,
    typer.Argument(metavar="REFERENCE", help="What training saw: a file, a pattern, or a version's directory."),
]
Current = Annotated[
    str, typer.Argument(metavar="CURRENT", help="What is asked now: a file or a pattern; not with a log.")
]
Time = Annotated[str, typer.Option("--time", metavar="COLUMN", help="The column of event times.")]
Key = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="COLUMN", help="Names one example in both tables; may be given again."),
]
Prediction = Annotated[str, typer.Option("--prediction", metavar="COLUMN", help="The predictions' column.")]
Label = Annotated[str, typer.Option("--label", metavar="COLUMN", help="The labels' column.")]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="COLUMN", help="Leave this out; may be given again.")
]
Renamed = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME=OTHER", help="Called OTHER in CURRENT; may be given again."),
]
Log = Annotated[Path | None, typer.Option("--log", metavar="ROOT", help="The inference log.")]
Since = Annotated[str, typer.Option("--since", metavar="TIME", help="Of a log: ISO 8601, from then on.")]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="Of a log: ISO 8601, before then.")]
ReceivedSince = Annotated[
    str, typer.Option("--received-since", metavar="TIME", help="Of a log: what arrived from then on.")
]
Previous = Annotated[
    Path | None,
    typer.Option("--previous", metavar="DIRECTORY", help="With a log: would a rollback to this version help?"),
]
Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="With a log: what was right, by request_id; how well does it do?"),
]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FOLDER", file_okay=False, help="Write index.html and JSON here.")
]
Printed = Annotated[Output, typer.Option("--output", help="How to print what was found.")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(skew)


def skew(
    context: typer.Context,
    reference: Reference,
    current: Current = "",
    time: Time = "",
    key: Key = None,
    prediction: Prediction = "",
    label: Label = "",
    ignore: Ignore = None,
    column: Renamed = None,
    log: Log = None,
    control: LogOf = None,
    since: Since = "",
    until: Until = "",
    received_since: ReceivedSince = "",
    previous: Previous = None,
    labels: Labels = None,
    report: Report = None,
    output: Printed = Output.TEXT,
) -> None:
    """Compare what a model is asked with its training data.

    Takes two tables (Parquet, CSV, Arrow, FILE.duckdb::TABLE; a quoted pattern reads many files; the second may be
    KServe's CloudEvents or TensorFlow Serving's PredictionLogs), or a version's directory and the log of an engine.
    Names the columns that differ, and the cause where it shows. Exit status 1 if a column fails, or if nothing could
    be told of any.

    \b
    Examples:
      tidegate skew training.parquet today.csv --time sent_at --key order_id --report skew/
      tidegate skew "2013-0[1-5].parquet" 2013-06.parquet --output json
      tidegate skew training.parquet "events-*.jsonl" --column distance=0 --column carrier=1
      tidegate skew models/flights/2 --log log --since 2013-06-05 --until 2013-06-06
      tidegate skew models/flights/2 --log log --previous models/flights/1
      tidegate skew models/flights/2 --log log --since 2013-06-05 --labels labels.jsonl
    """
    from tidegate_operators.steps import parse_time, require_no_skew, skew_of_tables

    of_tables = {"time": time, "key": key, "prediction": prediction, "label": label, "ignore": ignore, "column": column}
    of_log = {"log": log, "control": control, "since": since, "until": until, "received-since": received_since}
    if current:
        _refuse(
            {**of_log, "previous": previous, "labels": labels},
            "of the log of an engine, and two tables were given: leave CURRENT out, or that",
        )
        columns: dict[str, Any] = {"time": time or None, "keys": key or (), "prediction": prediction or None}
        columns |= {"label": label or None, "ignore": ignore or (), "columns": _renamed(column or [])}
        found = skew_of_tables(reference, current, report=report, **columns)
    else:
        engine = control or (named_engine(context) if log is None else None)
        if log or engine:
            _refuse(of_tables, "of two tables, and a log is compared as the version's manifest says: leave it out")
        bounds = {"since": parse_time(since), "until": parse_time(until), "received_since": parse_time(received_since)}
        found = _of_log(Path(reference), log, engine, report, {**bounds, "previous": previous, "labels": labels})
    _show(found, output)
    require_no_skew(found)


def _renamed(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if not all(text.partition("=")):
            raise typer.BadParameter(f"{text!r} is not NAME=OTHER", param_hint="--column")
    return dict(text.split("=", 1) for text in texts)


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """InvalidInput for options of the other comparison, which would change nothing."""
    from tidegate_serving.contract.errors import InvalidInput

    given = [f"--{name}" for name, value in options.items() if value]
    if given:
        raise InvalidInput(f"{', '.join(given)} is {why}")


def _of_log(
    directory: Path, log: Path | None, engine: EngineConnection | None, report: Path | None, options: dict[str, Any]
) -> Skew:
    from tidegate_operators.steps import require_log, skew_of_log
    from tidegate_serving.contract.errors import InvalidInput

    if log is None and engine is None:
        raise InvalidInput(
            "give a second table to compare with, or the inference log with --log, or its engine with --control, "
            "TIDEGATE_CONTROL or a profile (tidegate --profile NAME skew ...)"
        )
    root = log or require_log(control=engine or "")
    return skew_of_log(directory=directory, log_root=root, report=report, **options)


def _show(found: Skew, output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(found.report.to_dict(), indent=1, ensure_ascii=False, default=str))
        return
    rows = [(finding.subject, finding.outcome.value, finding.sentence) for finding in found.report.findings]
    show_table("", ("feature", "outcome", "why"), rows)
    if found.report.performance is not None:
        say(found.report.performance.sentence)
    if found.report.rollback is not None:
        say(found.report.rollback.sentence)
    if found.page is not None:
        say(f"report {found.page}")
