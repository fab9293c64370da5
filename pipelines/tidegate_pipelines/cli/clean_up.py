"""`tidegate clean-up`: removes old versions from a model repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.durations import duration
from tidegate_pipelines.cli.options import control_at, environment
from tidegate_serving.connection import EngineConnection
from tidegate_validation.counts import counted


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("clean-up")(clean_up)


def clean_up(
    context: typer.Context,
    repository: Annotated[
        Path, typer.Argument(metavar="ROOT", help="The model repository.", envvar="TIDEGATE_REPOSITORY")
    ] = Path("models"),
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=1, help="Newest versions of each model that stay.")
    ] = 5,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Only what was published longer ago, such as 30d."),
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option("--control", metavar="HOST:PORT", help="An engine that serves from it; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
) -> None:
    """Remove old versions from the repository.

    What an engine serves, loads or wants, what a label names and what a rollback would go back to stays, however old it
    is. Verdicts stay, they are the model's history.

    \b
    Examples:
      tidegate clean-up models --keep 3 --older-than 30d --dry-run
      tidegate clean-up models --control 10.0.0.5:8502 --control 10.0.0.6:8502
    """
    from tidegate_operators.steps.clean_up import Retention
    from tidegate_operators.steps.clean_up import clean_up as run

    retention = Retention(keep) if older_than is None else Retention(keep, duration(older_than, "--older-than"))
    engines = [control_at(context, address) for address in control or ()]
    controls = engines or [EngineConnection.from_environment(environment(context))]
    done = run(repository=repository, controls=controls, retention=retention, dry_run=dry_run)
    rows = [(str(identity), "would go" if dry_run else "removed", "") for identity in done.removed]
    rows += [(str(identity), "stays", reason) for identity, reason in done.spared]
    if rows:
        show_table(f"Old versions in {repository}", ("version", "", "why"), rows)
    verb = "would free" if dry_run else "freed"
    versions = counted(len(done.removed), "version")
    needed = counted(len(done.spared), "old one is", "old ones are")
    say(f"{versions}, {verb} {done.freed_bytes / 1e6:.1f} MB; {needed} needed")
