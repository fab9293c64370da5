"""`tidegate support-bundle`: one file with what somebody needs who is to help with an engine.

A zip with status, config without secrets, journal, metrics, libraries and log lines. There is no model data in it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("support-bundle")(support_bundle)


def support_bundle(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; a zip.")],
    control: Control = DEFAULT_CONTROL,
) -> None:
    """Pack what somebody needs who is to help.

    Status, config without secrets, journal, metrics, versions of libraries and recent log lines; no model data.

    \b
    Example:
      tidegate support-bundle engine.zip
    """
    from tidegate_pipelines.cli.status_document import status_document
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        files = client.support()
        files["status.json"] = (json.dumps(status_document(client.status()), indent=1) + "\n").encode()
    write_bundle(file, files)
    say(f"{file} holds {', '.join(sorted(files))}: look through it before you send it")


def write_bundle(file: Path, files: dict[str, bytes]) -> None:
    """A zip, complete before anybody can see it. InvalidInput, naming the path, where it cannot be written."""
    import zipfile

    from tidegate_serving.contract.errors import InvalidInput

    aside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in sorted(files.items()):
                archive.writestr(name, data)
        aside.replace(file)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise InvalidInput(f"{file} cannot be written ({error}): name another file") from error
