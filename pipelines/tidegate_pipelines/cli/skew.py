"""`tidegate skew`: compares what an engine saw with what a version was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.options import Directory


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(skew)


def skew(
    directory: Directory,
    log: Annotated[Path | None, typer.Option("--log", metavar="ROOT", help="The inference log.")] = None,
    control: Annotated[
        str | None, typer.Option("--control", metavar="HOST:PORT", help="Take the log of this engine.")
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="ISO 8601, from then on.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="ISO 8601, before then.")] = "",
    received_since: Annotated[
        str, typer.Option("--received-since", metavar="TIME", help="Only what arrived from then on.")
    ] = "",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FOLDER", help="Write index.html and JSON here.")
    ] = None,
) -> None:
    """Compare what an engine saw with training data.

    Names the features whose distribution differs, and the cause where it shows. Times are those of the event where the
    manifest names one, else of arrival. Exit status 1 if a feature fails.

    \b
    Example:
      tidegate skew models/flights/2 --log log --since 2013-06-05 --until 2013-06-06 --report skew/
    """
    from tidegate_operators.steps import parse_time, require_log, require_no_skew
    from tidegate_operators.steps import skew as run
    from tidegate_serving.contract.errors import InvalidInput

    if log is None and control is None:
        raise InvalidInput("name the inference log with --log, or the engine that writes it with --control")
    found = run(
        directory=directory,
        log_root=log if log is not None else require_log(control=control or ""),
        since=parse_time(since),
        until=parse_time(until),
        received_since=parse_time(received_since),
        report=report,
    )
    rows = [(finding.subject, finding.outcome.value, finding.sentence) for finding in found.report.findings]
    show_table("", ("feature", "outcome", "why"), rows)
    if found.page is not None:
        say(f"report {found.page}")
    require_no_skew(found)
