"""`tidegate keys`: makes the validator's key pair.

Out go two PEM files; the private one belongs to whoever runs the gates, never to training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say

PRIVATE_NAME = "validator.key"
PUBLIC_NAME = "validator.pub"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(keys)


def keys(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where to put the two files.")],
) -> None:
    """Make the validator's pair of keys.

    One signs verdicts, the other checks them: the gates need validator.key (`tidegate validate --key`), engines need
    validator.pub (`tidegate serve --trusted-key`). Training needs neither, so it cannot admit its own models.

    \b
    Example:
      tidegate keys keys/
    """
    from tidegate_serving.contract.signing import make_keys

    make_keys(directory / PRIVATE_NAME, directory / PUBLIC_NAME)
    say(f"made {directory / PRIVATE_NAME} (keep it secret) and {directory / PUBLIC_NAME}")
