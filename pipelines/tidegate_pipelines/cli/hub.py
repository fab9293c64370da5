"""`tidegate hub`: the long-running service beside engines and orchestrators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.extras import missing


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(hub)


def hub(
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML with any setting.")] = None,
    address: Annotated[str | None, typer.Option("--address", metavar="HOST:PORT", help="Where it listens.")] = None,
    directory: Annotated[
        Path | None, typer.Option("--directory", metavar="FOLDER", help="Database, repository and keys.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option("--ready-file", metavar="FILE", help="Gets the address as JSON once ready.")
    ] = None,
) -> None:
    """Run the hub: releases by themselves, and pages about them.

    Without any set-up it keeps everything in ./tidegate-hub and listens on 127.0.0.1:8600.

    The engine comes from TIDEGATE_CONTROL or TIDEGATE_PROFILE, else it is this machine's, and MLflow from
    MLFLOW_TRACKING_URI, where the config names none. SIGTERM gives releases back and ends.

    \b
    Examples:
      tidegate hub
      tidegate hub --config hub.toml
    """
    try:
        from tidegate_pipelines.hub.config import HubConfig
        from tidegate_pipelines.hub.logs import log_to_stderr
        from tidegate_pipelines.hub.service import run
    except ModuleNotFoundError as error:
        if (lacks := missing(error, "hub")) is None:
            raise
        raise lacks from error

    log_to_stderr()
    read = HubConfig.load(config, overrides={"address": address, "directory": directory})

    def on_ready(where: str) -> None:
        typer.echo(
            f"the hub is at {read.public_url}, listening at {where}" if read.public_url else f"the hub is at {where}"
        )

    run(read, ready_file, on_ready)
