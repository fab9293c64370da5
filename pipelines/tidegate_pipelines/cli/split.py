"""`tidegate split`: ordinary traffic of a model goes to several versions by share.

The engine divides from the next request on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.operations import Name, Reason, who
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control
from tidegate_serving.contract.servable import MAX_VERSION

Shares = Annotated[
    list[str] | None,
    typer.Argument(metavar="VERSION=SHARE", help="Shares that make 1, or 100%; none with --off."),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(split)


def split(
    name: Name,
    shares: Shares = None,
    key: Annotated[
        str, typer.Option("--key", metavar="HEADER", help="Who has the same value here gets the same version.")
    ] = "",
    off: Annotated[bool, typer.Option("--off", help="End the split.")] = False,
    reason: Reason = "",
    control: Control = DEFAULT_CONTROL,
) -> None:
    """Divide ordinary traffic between versions.

    Requests that name a version or a label are not touched.

    \b
    Examples:
      tidegate split flights 2=90% 3=10%
      tidegate split flights 2=0.5 3=0.5 --key x-user-id
      tidegate split flights --off
    """
    from tidegate_serving.control_client import ControlClient

    if off is bool(shares):
        raise typer.BadParameter("name shares such as 2=90% 3=10%, or --off alone", param_hint="VERSION=SHARE")
    wanted = parse_shares(shares or [])
    with ControlClient(control) as client:
        say(client.split(name, wanted, key=key, requested_by=who(), reason=reason).sentence)


def parse_shares(texts: Sequence[str]) -> dict[int, float]:
    """Shares by version, from texts such as `2=90%` or `2=0.9`; typer.BadParameter for anything else."""
    shares: dict[int, float] = {}
    for text in texts:
        version, _, share = text.partition("=")
        percent = share.endswith("%")
        try:
            number = float(share.removesuffix("%")) / (100 if percent else 1)
            if int(version) in shares or not 0 <= int(version) <= MAX_VERSION:
                raise ValueError("named twice, or out of range")
            shares[int(version)] = number
        except ValueError as error:
            raise typer.BadParameter(
                f"{text!r} is no share of a version: write 2=90% or 2=0.9, each version once",
                param_hint="VERSION=SHARE",
            ) from error
    return shares
