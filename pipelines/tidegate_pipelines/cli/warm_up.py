"""`tidegate warm-up`: makes a TensorFlow Serving warm-up file of requests that the inference log holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.options import version_number
from tidegate_validation.counts import counted

_HELP = """Warm versions up with requests that were really asked.

An engine runs the requests in a version's assets.extra/tf_serving_warmup_requests before the version serves, as does
TensorFlow Serving.

\b
Examples:
  tidegate warm-up capture flights --version 1 --log log --out warm-up.tfrecord
  tidegate publish model.onnx --name flights --version 2 --platform onnx --warm-up warm-up.tfrecord ...
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="warm-up")


@app.callback()
def _group() -> None:
    """Keeps `capture` a command of its own."""


@app.command()
def capture(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Whose requests.")],
    version: Annotated[
        int, typer.Option("--version", metavar="VERSION", parser=version_number, help="The version that answered.")
    ],
    log: Annotated[Path, typer.Option("--log", metavar="ROOT", help="The inference log.")],
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help="The file, or a model folder, to write to.")],
    requests: Annotated[
        int, typer.Option("--requests", metavar="N", min=1, max=1000, help="How many at most, drawn at random.")
    ] = 100,
    request: Annotated[
        list[str] | None, typer.Option("--request", metavar="ID", help="This one, instead; may be given again.")
    ] = None,
    signature: Annotated[
        str, typer.Option("--signature", metavar="NAME", help="Which way the model was called.")
    ] = "serving_default",
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="ISO 8601: what came from then on.")] = "",
    like: Annotated[
        Path | None,
        typer.Option("--like", metavar="FOLDER", help="A published version with the signature; else the log's types."),
    ] = None,
) -> None:
    """Write a warm-up file of requests, taken from the log.

    A request is taken whole, or not where a row of it failed. The same log gives the same file. It holds what clients
    sent: look at who may read it.

    \b
    Examples:
      tidegate warm-up capture flights --version 1 --log log --like models/flights/1 --out warm-up.tfrecord
      tidegate warm-up capture flights --version 1 --log log --requests 20 --out saved_model/
    """
    from tidegate_operators.steps import parse_time
    from tidegate_operators.steps.warm_up_file import capture_warm_up
    from tidegate_validation.golden_requests import Recording

    wanted = Recording(model, version, requests, tuple(request or ()), signature, parse_time(since))
    done = capture_warm_up(log, wanted, out, like=like)
    captured = f"{counted(done.requests, 'request')} ({counted(done.rows, 'row')})"
    say(f"captured {captured} of {model}:{version} in {done.path}")
