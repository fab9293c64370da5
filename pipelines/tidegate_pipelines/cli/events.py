"""`tidegate events`: what changed in an engine, in words, newest last; decisions with who and why.

It asks the engine for its journal over a span of time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.durations import duration
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control

if TYPE_CHECKING:
    from tidegate_serving.control_client import Entry

_ON_THE_WAY = ("START", "LOADING", "UNLOADING")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(events)


def events(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One model; without it all.")] = "",
    since: Annotated[str, typer.Option("--since", metavar="SPAN", help="How far back: 30m, 4h, 2d.")] = "1h",
    newest: Annotated[int, typer.Option("--newest", metavar="N", min=1, help="At most so many, the newest.")] = 200,
    everything: Annotated[
        bool, typer.Option("--all", help="Each time, and states on the way, such as LOADING and UNLOADING.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines, as the journal keeps them.")] = False,
    control: Control = DEFAULT_CONTROL,
) -> None:
    """Show what changed, newest last. What repeats, such as a load that fails, is shown once.

    The engine keeps these entries across restarts where it has a state directory (`tidegate serve --state FOLDER`).

    \b
    Examples:
      tidegate events
      tidegate events flights --since 2d --json
    """
    from tidegate_serving.control_client import ControlClient
    from tidegate_serving.journal.entry import to_line

    since_us = int((time.time() - duration(since, "--since").total_seconds()) * 1e6)
    with ControlClient(control) as client:
        entries = client.journal(since_us, name)
    shown = [entry for entry in entries if everything or entry.action not in _ON_THE_WAY]
    if as_json:
        for entry in shown[-newest:]:
            typer.echo(json.dumps(json.loads(to_line(entry))))
        return
    if not shown:
        say(f"nothing changed in the last {since}")
    lines = [(entry, "") for entry in shown] if everything else list(once(shown))
    for entry, again in lines[-newest:]:
        words = f"{entry.words()}{again}".replace("\n", "\n    ")
        say(f"{_at(entry)}  {words}")


def once(entries: Sequence[Entry]) -> Iterator[tuple[Entry, str]]:
    """Each entry with words to add; errors that came again in the same words stand only where they came last, with how
    often and since when."""
    times: dict[tuple[str, str, int | None], list[Entry]] = {}
    for entry in entries:
        if _may_repeat(entry):
            times.setdefault((entry.text, entry.servable, entry.version), []).append(entry)
    for entry in entries:
        same = times.get((entry.text, entry.servable, entry.version), [entry])
        if entry is same[-1]:
            yield entry, f" ({len(same)} times since {_at(same[0])})" if len(same) > 1 else ""


def _may_repeat(entry: Entry) -> bool:
    return bool(entry.error_code) and entry.kind.value in ("state", "source")


def _at(entry: Entry) -> str:
    return datetime.fromtimestamp(entry.at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
