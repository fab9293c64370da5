"""`tidegate golden`: records requests and their answers from the inference log, for candidates to answer alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.options import version_number
from tidegate_validation.counts import counted

_HELP = """Record golden requests: what was asked and answered.

A candidate has to answer them alike, within the tolerances of the policy ([robustness.golden.OUTPUT]); the robustness
gate says which request is answered otherwise. Name the file when you judge, or publish it with the version.

\b
Examples:
  tidegate golden record flights --version 1 --log log --out golden.parquet
  tidegate validate models/flights/2 --data june.parquet --golden golden.parquet --policy policy.toml
  tidegate publish model.onnx --name flights --version 3 --platform onnx --golden golden.parquet ...
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="golden")


@app.callback()
def _group() -> None:
    """Keeps `record` a command of its own."""


@app.command()
def record(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Whose requests.")],
    version: Annotated[
        int, typer.Option("--version", metavar="VERSION", parser=version_number, help="The version that answered.")
    ],
    log: Annotated[Path, typer.Option("--log", metavar="ROOT", help="The inference log.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", dir_okay=False, help="The Parquet file to write.")],
    requests: Annotated[
        int, typer.Option("--requests", metavar="N", min=1, help="How many at most, drawn at random.")
    ] = 200,
    request: Annotated[
        list[str] | None, typer.Option("--request", metavar="ID", help="This one, instead; may be given again.")
    ] = None,
    signature: Annotated[
        str, typer.Option("--signature", metavar="NAME", help="Which way the model was called.")
    ] = "serving_default",
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="ISO 8601: what came from then on.")] = "",
) -> None:
    """Write a file of requests and answers, taken from the log.

    A request is taken whole, or not where a row of it failed. The same log gives the same requests.

    \b
    Examples:
      tidegate golden record flights --version 1 --log log --out golden.parquet
      tidegate golden record flights --version 1 --log log --request 8f3a --request 91bc --out golden.parquet
    """
    from tidegate_operators.steps import parse_time
    from tidegate_validation.golden_requests import Recording, record_golden_requests

    wanted = Recording(model, version, requests, tuple(request or ()), signature, parse_time(since))
    golden = record_golden_requests(log, wanted, out)
    count = sum(1 for _ in golden.requests())
    say(f"recorded {counted(count, 'request')} ({counted(golden.table.num_rows, 'row')}) of {golden.servable} in {out}")
