"""`tidegate status`: where everything stands in an engine, as a table or as JSON.

The engine says it of itself, over its control port.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control
from tidegate_pipelines.cli.status_document import status_document
from tidegate_pipelines.cli.status_words import lines, notes
from tidegate_serving.contract.errors import NotFound

if TYPE_CHECKING:
    from tidegate_operators.steps.engine_group import Outcomes
    from tidegate_serving.connection import EngineConnection
    from tidegate_serving.control_client import EngineStatus, ServableStatus, VersionStatus


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(status)


def status(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One model; without it all.")] = "",
    control: Control = DEFAULT_CONTROL,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with all counters.")] = False,
) -> None:
    """Show what an engine holds and what is wrong. States, labels, overrides, and who asked for them.

    \b
    Examples:
      tidegate status
      tidegate status flights --json
    """
    from tidegate_operators.steps.engine_group import engines_of, on_each
    from tidegate_serving.control_client import ControlClient

    def ask(engine: EngineConnection) -> EngineStatus:
        with ControlClient(engine) as client:
            found = client.status(name)
        if name and found.servable(name) is None:
            raise NotFound(f"the engine at {engine} knows no model {name!r}: see `tidegate status`")
        return found

    engines = engines_of(control)
    outcomes = on_each(engines, ask)
    if len(engines) > 1:
        _tell_group(outcomes, as_json)
        outcomes.all()
        return
    found = outcomes.all()[0]
    if as_json:
        typer.echo(json.dumps(status_document(found), indent=1))
        return
    _tell(found)


def _tell_group(outcomes: Outcomes[EngineStatus], as_json: bool) -> None:
    if as_json:
        rows: list[dict[str, object]] = [
            {"engine": str(engine), "status": status_document(found)} for engine, found in outcomes.done
        ]
        rows += [
            {"engine": str(engine), "error_code": error.code, "error_message": error.message}
            for engine, error in outcomes.failed
        ]
        typer.echo(json.dumps({"format": "tidegate.group-status/1", "engines": rows}, indent=1))
        return
    for engine, found in outcomes.done:
        say(f"engine {engine}")
        _tell(found)


def _tell(found: EngineStatus) -> None:
    if found.grpc_address or found.rest_address:  # a fleet's controller has none
        say(f"gRPC {found.grpc_address}   REST {found.rest_address}   inference log {found.log_path or 'off'}")
    for problem in found.problems:
        since = datetime.fromtimestamp(problem.since_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        say(f"{problem.error_message} (since {since})", "WARN")
    if not found.servables:
        say("nothing is served yet: publish, validate and push a version")
        return
    columns = ("model", "version", "state", "labels", "since (UTC)", "admitted by")
    show_table("", columns, [row for servable in found.servables for row in _rows(servable)])
    for servable in found.servables:
        for text, word in lines(servable):
            say(text, word)
    for note in notes(found.servables):
        say(note, "WARN")


def _rows(servable: ServableStatus) -> Iterator[tuple[str, ...]]:
    for version in servable.versions:
        labels = list(version.labels)
        shadow = servable.desired.shadow
        if shadow is not None and shadow.version == version.version:
            labels.append(f"shadow {shadow.fraction:g}")
        at = datetime.fromtimestamp(version.since_us / 1e6, UTC)
        since = at.strftime("%Y-%m-%d %H:%M:%S") if version.since_us else ""  # where no node of a fleet has it yet
        yield servable.servable, str(version.version), version.state.name, ", ".join(labels), since, _admitted(version)


def _admitted(version: VersionStatus) -> str:
    if version.admitted is None:
        return ""
    return f"{version.admitted.key_name or 'a verdict'}{', OVERRIDDEN' if _is_overridden(version) else ''}"


def _is_overridden(version: VersionStatus) -> bool:
    return any(note.startswith("OVERRIDE") for note in version.notes)
