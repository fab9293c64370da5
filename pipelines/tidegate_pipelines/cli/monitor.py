"""`tidegate monitor`: looks at what a model is asked, window after window, and says what it sees."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.durations import duration
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control
from tidegate_serving.contract.errors import TidegateError

if TYPE_CHECKING:
    from tidegate_pipelines.monitor import Observation

_STATES = {"keep": "PASS", "warn": "WARN", "alert": "FAIL"}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(monitor)


def monitor(
    servable: Annotated[str, typer.Argument(metavar="NAME", help="The model; its label `stable` is watched.")],
    reports: Annotated[
        Path,
        typer.Option("--reports", metavar="FOLDER", file_okay=False, help="Reports, memory and skew.prom go here."),
    ],
    window: Annotated[str, typer.Option("--window", metavar="TIME", help="Length of a window of event time.")] = "1d",
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="How often a window is looked at.")] = "1h",
    windows_per_alarm: Annotated[
        int,
        typer.Option("--windows-per-alarm", metavar="N", min=1, help="Drift over windows: one false alarm in so many."),
    ] = 365,
    once: Annotated[bool, typer.Option("--once", help="Look at one window and end; status 1 if it alerts.")] = False,
    control: Control = DEFAULT_CONTROL,
) -> None:
    """Watch what a model is asked, until stopped.

    Each window becomes a report (index.html and skew.json) in FOLDER, its gauges skew.prom there. FOLDER remembers all
    windows, so that slow drift is found too, and a watch goes on where it was stopped. An engine that is away is waited
    for.

    \b
    Examples:
      tidegate monitor flights --reports skew
      tidegate monitor flights --reports skew --window 7d --every 1d --windows-per-alarm 104
    """
    from tidegate_pipelines.monitor import Action, Watch
    from tidegate_pipelines.monitor import monitor as run

    watch = Watch(
        control,
        servable,
        reports,
        window=duration(window, "--window"),
        every=duration(every, "--every").total_seconds(),
        windows_per_alarm=windows_per_alarm,
    )
    stop = threading.Event()
    seen: list[Action] = []

    def hear(observation: Observation) -> None:
        seen.append(observation.action)
        _tell(observation)
        if once:
            stop.set()

    def away(error: TidegateError) -> None:
        say(error.message, "WARN")
        if once:
            raise error

    before = {one: signal.signal(one, lambda number, frame: stop.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        run(watch, hear, stop, on_away=away)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    if once and Action.ALERT in seen:
        raise typer.Exit(1)


def _tell(observation: Observation) -> None:
    report = observation.skew.report
    say(f"{observation.until:%Y-%m-%d %H:%M} {report.sentence}", _STATES[observation.action.value])
    if report.rollback is not None:
        say(report.rollback.sentence)
    if observation.skew.page is not None:
        say(f"report {observation.skew.page}")
