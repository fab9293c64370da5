"""Options that several commands share, so that they are called and explained the same everywhere.

Command modules annotate parameters with these.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.servable import MAX_VERSION
from tidegate_serving.contract.words import cut

DEFAULT_CONTROL = EngineConnection(("127.0.0.1:8502",))
DEFAULT_GRPC = EngineConnection(("127.0.0.1:8500",))


def environment(context: typer.Context) -> dict[str, str]:
    """The variables of this process, with `--profile` among them."""
    profile = context.find_root().params.get("profile")
    return {**os.environ, "TIDEGATE_PROFILE": profile} if profile else dict(os.environ)


def control_at(context: typer.Context, address: str) -> EngineConnection:
    """The control port at an address that was given, with the token and certificates of profile and variables."""
    return EngineConnection.from_environment({**environment(context), "TIDEGATE_CONTROL": address})


def named_engine(context: typer.Context) -> EngineConnection | None:
    """The control port that `--profile` or a variable names, None where none of them does."""
    told = environment(context)
    named = any(told.get(one) for one in ("TIDEGATE_PROFILE", "TIDEGATE_CONTROL"))
    return EngineConnection.from_environment(told) if named else None


def version_number(text: str) -> int:
    """A version's number as it was typed; what cannot be one is said with what can."""
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_VERSION))
    if not digits or int(text) > MAX_VERSION:
        raise typer.BadParameter(f"{cut(text)!r} is no version's number: give a whole one, such as 2")
    return int(text)


def _control(context: typer.Context, given: EngineConnection | None) -> EngineConnection | None:
    if given is None or context.resilient_parsing:
        return given
    if given is DEFAULT_CONTROL:
        return EngineConnection.from_environment(environment(context))
    return control_at(context, _text(given))


def _grpc(context: typer.Context, given: EngineConnection) -> EngineConnection:
    if context.resilient_parsing:
        return given
    address = {} if given is DEFAULT_GRPC else {"TIDEGATE_GRPC_ADDRESS": _text(given)}
    return EngineConnection.grpc_from_environment({**environment(context), **address})


def _text(connection: EngineConnection) -> str:
    """As `EngineConnection.of` read it."""
    files = {key: getattr(connection, key) for key in ("ca", "certificate", "key", "server_name")}
    query = urlencode({key: str(value) for key, value in files.items() if value})
    return f"tidegates://{connection}{f'?{query}' if query else ''}" if connection.tls else str(connection)


def _control_option(told: str) -> Any:
    """`--control` of commands that differ in what they ask the engine for, which `told` says in their help."""
    return typer.Option("--control", metavar="HOST:PORT", parser=EngineConnection.of, callback=_control, help=told)


Control = Annotated[
    EngineConnection,
    _control_option("The engine's control address, or TIDEGATE_CONTROL, or what --profile names."),
]
MaybeControl = Annotated[
    EngineConnection | None,
    _control_option("Ask the engine that takes pushes here."),
]
LogOf = Annotated[
    EngineConnection | None,
    _control_option("Take the log of this engine; else of the one that TIDEGATE_CONTROL or --profile names."),
]
Serving = Annotated[
    EngineConnection | None,
    _control_option("Take baseline and log from the engine that serves."),
]
Grpc = Annotated[
    EngineConnection,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        parser=EngineConnection.of,
        callback=_grpc,
        help="The gRPC endpoint, or TIDEGATE_GRPC_ADDRESS, or what --profile names.",
    ),
]
Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The version's directory, ROOT/NAME/VERSION.")]
DirectoryOrAddress = Annotated[
    str,
    typer.Argument(metavar="DIRECTORY", help="ROOT/NAME/VERSION: a folder, or in an object store (s3://...)."),
]
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
Golden = Annotated[
    Path | None,
    typer.Option("--golden", metavar="FILE", help="Golden requests, recorded with `tidegate golden record`."),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the engine.")]
Repository = Annotated[
    Path, typer.Option("--repository", metavar="ROOT", help="The model repository.", envvar="TIDEGATE_REPOSITORY")
]
Label = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="The truth in the data.")]
EventTime = Annotated[
    str | None,
    typer.Option("--event-time", metavar="COLUMN", help="Time of the event; requests tell it in Unix seconds."),
]
NO_PROFILE = "without --training there is no profile: skew cannot be judged for this version"
GrpcAddress = Annotated[
    str | None, typer.Option("--grpc-address", metavar="HOST:PORT", help="Where clients ask over gRPC.")
]
RestAddress = Annotated[
    str | None, typer.Option("--rest-address", metavar="HOST:PORT", help="Where clients ask over HTTP.")
]
