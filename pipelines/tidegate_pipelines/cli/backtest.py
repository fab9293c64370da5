"""`tidegate backtest`: what the gates would have said of past releases and past data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.options import Policy
from tidegate_pipelines.cli.progress import progress

if TYPE_CHECKING:
    from tidegate_validation.backtest import Backtest


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(backtest)


def backtest(
    models: Annotated[Path, typer.Argument(metavar="MODELS", help="A folder of versions, ROOT/NAME, or of models.")],
    logged: Annotated[
        str, typer.Option("--logged", metavar="DATA", help="What was served: a file, a pattern, or an inference log.")
    ],
    report: Annotated[
        Path, typer.Option("--report", metavar="FOLDER", file_okay=False, help="Write index.html and JSON here.")
    ],
    time: Annotated[str, typer.Option("--time", metavar="COLUMN", help="When a row was served.")] = "",
    label: Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="The truth, where known.")] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", metavar="DATA", help="Labels apart, joined by --key.")
    ] = None,
    key: Annotated[str, typer.Option("--key", metavar="COLUMN", help="Names a row in both.")] = "request_id",
    prediction: Annotated[
        str | None, typer.Option("--prediction", metavar="COLUMN", help="What was answered; else models are asked.")
    ] = None,
    released: Annotated[
        Path | None, typer.Option("--released", metavar="FILE", help="A table version,released; else told by names.")
    ] = None,
    platform: Annotated[str | None, typer.Option("--platform", help="Of models whose name does not tell.")] = None,
    signature: Annotated[
        Path | None, typer.Option("--signature", metavar="FILE", help="How models are called that do not tell.")
    ] = None,
    policy: Policy = None,
    gates: Annotated[str, typer.Option("--gates", metavar="NAMES", help="Those that judge releases.")] = "quality,skew",
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, help="Before a release, to judge it by.")] = 28,
    window: Annotated[
        int, typer.Option("--window", metavar="N", min=1, help="Days that are compared with training.")
    ] = 7,
    step: Annotated[int, typer.Option("--step", metavar="N", min=1, help="Days from one window to the next.")] = 1,
    delay: Annotated[
        int | None,
        typer.Option(
            "--label-delay", metavar="N", min=0, help="Days until a label is known; else told by the labels' at."
        ),
    ] = None,
) -> None:
    """Look back: which past releases would have been refused.

    And which drifts named, and when. Nothing is changed, and no engine or key is needed. The page says of each release
    whether the gates would have let it in and why not; which columns would have been named when, and how many days
    before the metrics showed it; how many alarms that is beside fixed thresholds; and what could not be judged.

    \b
    Examples:
      tidegate backtest models/flights --logged log --label late --labels labels.csv --report backtest/
      tidegate backtest old-models/ --logged "2013-*.parquet" --time departed --label late --report backtest/
    """
    from tidegate_operators.steps.backtest import PastData, PastModels, read_released
    from tidegate_operators.steps.backtest import backtest as run
    from tidegate_validation.backtest import BacktestRule

    rule = BacktestRule(tuple(name for name in gates.split(",") if name), days, window, step, delay)
    past = PastModels(models, {} if released is None else read_released(released), platform, signature)
    data = PastData(logged, time, label, labels, key, prediction)
    with progress() as shown:
        found = run(past, data, policy=policy, rule=rule, report=report, progress=shown)
    _show(found)
    say(f"{found.sentence}; report {report / 'index.html'}")


def _show(found: Backtest) -> None:
    """Each past release, and what could not be judged."""
    words = {None: "could not be judged", True: "refused", False: "let in"}
    rows = [
        (one.name, one.released, words[one.refused], "; ".join(one.reasons) or one.sentence) for one in found.releases
    ]
    show_table("Past releases", ("version", "released", "would be", "why"), rows)
    for one in found.unjudged:
        say(f"could not be judged: {one}", "WARN")
