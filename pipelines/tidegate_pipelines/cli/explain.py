"""`tidegate explain`: why each batch closed and how large it was, by signature, and what to change about it.

The engine's counters say so, over its control port.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.durations import duration
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control
from tidegate_serving.contract.errors import NotFound

if TYPE_CHECKING:
    from tidegate_serving.control.batch_report import SignatureBatches


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(explain)


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One model; without it all.")] = "",
    during: Annotated[
        str, typer.Option("--during", metavar="SPAN", help="Watch for so long (30s, 5m) instead of since the start.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    control: Control = DEFAULT_CONTROL,
) -> None:
    """Explain how requests were batched, and what to change.

    \b
    Reasons: full (max_batch_rows), timeout (timeout_us), idle (nothing more to read), shapes (too many shapes side by
    side), alone (shares with no other), bytes (64 MiB), deadline (cut to be in time), drain.

    \b
    Examples:
      tidegate explain
      tidegate explain flights --during 30s
    """
    from tidegate_serving.control.batch_report import advice, signature_batches
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        found = client.status(name)
        before = None
        if during:
            before = found.counters
            time.sleep(duration(during, "--during").total_seconds())
            found = client.status(name)
    if name and found.servable(name) is None:
        raise NotFound(f"the engine knows no model {name!r}: see `tidegate status`")
    batches = signature_batches(found.counters, before)
    if as_json:
        signatures = [{**asdict(one), "advice": list(advice(one))} for one in batches]
        typer.echo(json.dumps({"format": "tidegate.batches/1", "signatures": signatures}, indent=1))
        return
    if not batches:
        say(f"no batch has run{f' in {during}' if during else ''}: send requests first")
        return
    columns = ("version", "signature", "closed by", "batches", "share", "requests", "rows")
    show_table(
        "why batches closed; requests and rows are those of one batch, on average",
        columns,
        [row for one in batches for row in _rows(one)],
    )
    for one in batches:
        for sentence in advice(one):
            say(f"{one.model}:{one.version} {one.signature}: {sentence}")


def _rows(one: SignatureBatches) -> Iterator[tuple[str, ...]]:
    for reason, closed in sorted(one.closed.items(), key=lambda item: -item[1].batches):
        yield (
            *(f"{one.model}:{one.version}", one.signature, reason, f"{closed.batches:.0f}"),
            *(f"{one.share(reason) * 100:.0f} %", f"{closed.requests_each:.1f}"),
            f"{closed.rows_each:.1f} of {one.max_rows:.0f}",
        )
