"""`tidegate log-level`: how much a running engine logs, without a restart.

In come a level and, where wanted, one logger; the engine changes it and notes it in its journal.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.operations import Reason, who
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("log-level")(log_level)


def log_level(
    level: Annotated[str, typer.Argument(metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")],
    logger: Annotated[str, typer.Option("--logger", metavar="NAME", help="One logger; else all of the engine.")] = "",
    reason: Reason = "",
    control: Control = DEFAULT_CONTROL,
) -> None:
    """Change how much a running engine logs.

    \b
    Examples:
      tidegate log-level DEBUG
      tidegate log-level WARNING --logger tidegate_serving.sources
    """
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        before = client.set_log_level(level.upper(), logger, requested_by=who(), reason=reason)
    say(f"{logger or 'the engine'} logs at {level.upper()} now, at {before} before")
