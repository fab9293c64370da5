"""Options that several commands share, so that they are called and explained the same everywhere.

Command modules annotate parameters with these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_CONTROL = "127.0.0.1:8502"
DEFAULT_GRPC = "127.0.0.1:8500"

Control = Annotated[
    str,
    typer.Option(
        "--control",
        metavar="HOST:PORT",
        envvar="TIDEGATE_CONTROL_ADDRESS",
        help="The engine's control address, where `tidegate serve` takes pushes.",
    ),
]
Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The version's directory, ROOT/NAME/VERSION.")]
HeldOut = Annotated[
    str,
    typer.Option(
        "--held-out",
        "--data",
        metavar="DATA",
        help="Data that training never saw, with the label: Parquet, CSV, Arrow, or FILE.duckdb::TABLE.",
    ),
]
Key = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="The validator's private key; `tidegate keys new` makes one.")
]
Training = Annotated[
    str | None, typer.Option("--training", metavar="DATA", help="The training data, in any form of --held-out.")
]
Policy = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="TOML with margins, limits and required gates.")
]
Baseline = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="DIRECTORY", help="The version to compare with."),
]
Truth = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="The truth, where the manifest names none.")
]
Log = Annotated[Path | None, typer.Option("--log", metavar="ROOT", help="Inference log, for the skew gate.")]
Entity = Annotated[
    str | None, typer.Option("--entity", metavar="COLUMN", help="Equal values belong together, a user say.")
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the engine.")]
Repository = Annotated[
    Path, typer.Option("--repository", metavar="ROOT", help="The model repository.", envvar="TIDEGATE_REPOSITORY")
]
Label = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="The truth in the data.")]
EventTime = Annotated[
    str | None, typer.Option("--event-time", metavar="COLUMN", help="Time of the event, in Unix seconds.")
]
NO_PROFILE = "without --training there is no profile: skew cannot be judged for this version"
