"""`tidegate validate`: runs the gates over one version and signs the verdict.

In come the version's directory and the evidence; the work is `tidegate_operators.steps.validate`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.options import Baseline, Directory, HeldOut, Key, Policy, Training

if TYPE_CHECKING:
    from tidegate_operators.steps import Validated


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(validate)


def validate(
    directory: Directory,
    held_out: HeldOut,
    key: Key,
    label: Annotated[
        str | None, typer.Option("--label", metavar="COLUMN", help="The truth, where the manifest names none.")
    ] = None,
    baseline: Baseline = None,
    control: Annotated[
        str | None,
        typer.Option("--control", metavar="HOST:PORT", help="Take baseline and log from the engine that serves."),
    ] = None,
    training: Training = None,
    log: Annotated[Path | None, typer.Option("--log", metavar="ROOT", help="Inference log, for the skew gate.")] = None,
    policy: Policy = None,
) -> None:
    """Judge a version, sign the verdict, write the report.

    The verdict lies beside the version, VERSION.verdict.json, the report is VERSION.report/index.html. The gates: data
    expectations; quality against the baseline; robustness, in a process that may crash; skew between training and what
    the engine sees. Exit status 1 if the verdict denies.

    \b
    Examples:
      tidegate validate models/flights/2 --held-out june.parquet --key keys/validator.key \\
          --baseline models/flights/1
      tidegate validate models/flights/2 --held-out june.parquet --key keys/validator.key \\
          --control 127.0.0.1:8502
    """
    from tidegate_operators.steps import find_baseline, find_log, require_allowed
    from tidegate_operators.steps import validate as run

    if control is not None:
        baseline = baseline or find_baseline(control=control, directory=directory)
        log = log or (find_log(control=control) if baseline else None)
    validated = run(
        directory=directory,
        held_out=held_out,
        private_key=key,
        baseline=baseline,
        training=training,
        log_root=log,
        policy=policy,
        label=label,
    )
    show_verdict(validated)
    require_allowed(validated)


def show_verdict(validated: Validated) -> None:
    """The gates as a table, then what it all adds up to."""
    verdict = validated.verdict
    rows = [(gate.gate, gate.outcome.value, gate.sentence, f"{gate.seconds:.1f} s") for gate in verdict.gates]
    show_table(f"Verdict on {verdict.id}", ("gate", "outcome", "why", "took"), rows)
    if verdict.allowed:
        say(verdict.sentence, verdict.outcome.value)
    say(f"signed {validated.verdict_path}; report {validated.report}")
