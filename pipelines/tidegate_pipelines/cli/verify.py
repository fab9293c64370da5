"""`tidegate verify`: checks a verdict and its signature offline, and explains a refusal.

The work is `tidegate_operators.steps.verify`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table

if TYPE_CHECKING:
    from tidegate_operators.steps.verify import Verification


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(verify)


def verify(
    target: Annotated[
        Path, typer.Argument(metavar="VERSION", help="The version's directory, or a VERSION.verdict.json.")
    ],
    key: Annotated[
        list[Path], typer.Option("--key", metavar="FILE", help="A public key or a key ring; may be repeated.")
    ],
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Policy whose [[override]] rules count.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="As of 2026-01-31T12:00:00Z; else now.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with the whole verdict.")] = False,
) -> None:
    """Check a verdict and its signature; no engine needed.

    Asks what an engine asks before it admits a version: is it signed by a trusted key, for exactly these files, not
    revoked, allowed or overridden by somebody who may, and still in time? Exit status 0 if it would be admitted, 1 if
    not, 2 if that could not be found out.

    \b
    Examples:
      tidegate verify models/flights/2 --key keys/
      tidegate verify models/flights/2.verdict.json --key keys/validator.pub --at 2026-01-31
    """
    from tidegate_operators.steps.verify import verify as run
    from tidegate_serving.contract import times

    moment = None if at is None else times.from_text(at, "--at")
    found = run(target=target, trusted=key, policy=policy, at=moment)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        _show(found)
    if not found.admits:
        raise typer.Exit(1)


def _show(found: Verification) -> None:
    rows = [(one.name, one.answer.value, one.sentence) for one in found.checks]
    show_table(f"{found.path.name} as of {found.at}", ("check", "", "why"), rows)
    signed = found.signed
    if signed is not None:
        gates = ", ".join(f"{gate.gate} {gate.outcome}" for gate in signed.verdict.gates)
        say(f"verdict {signed.digest[:12]}: {signed.verdict.outcome}; {gates or 'no gate ran'}")
    say(found.sentence, "ADMITTED" if found.admits else "REFUSED")
