"""`tidegate replay`: tries an input again that made the robustness gate refuse a version.

The gate kept it in a file, which the verdict's finding names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(replay)


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A failing input; the verdict's finding names it.")],
    directory: Annotated[
        Path | None,
        typer.Option("--directory", metavar="DIRECTORY", help="Another version to try it on, such as a mended one."),
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Show the end of the process's log.")] = False,
) -> None:
    """Try a failing input again.

    The version runs in the sandbox, under the limits that held when it failed. Exit status 0 if it deals with the
    input now, 1 if it fails.

    \b
    Examples:
      tidegate replay models/flights/2.report/failing-inputs/01-boundary-carrier.input
      tidegate replay 01-boundary-carrier.input --directory models/flights/3
    """
    from tidegate_validation.robustness.replay import replay as run

    result = run(file, directory)
    words = f"{result.servable}, {result.found}: {result.sentence} ({result.seconds:.1f} s)"
    say(words, "FAIL" if result.failed else "PASS")
    if log and result.log:
        say(result.log)
    if result.failed:
        raise typer.Exit(1)
