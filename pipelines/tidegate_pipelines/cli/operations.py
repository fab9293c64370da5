"""`tidegate pin`, `unpin`, `freeze`, `unfreeze`, `disable`, `enable`, `block` and `unblock`: decisions about one model.

The engine keeps each decision, writes it into its journal, and says what came of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control, version_number

if TYPE_CHECKING:
    from tidegate_serving.connection import EngineConnection
    from tidegate_serving.control_client import Outcome

Name = Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")]
Version = Annotated[int, typer.Argument(metavar="VERSION", parser=version_number, help="The version's number.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the journal and shown in status.")]
NeededReason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; clients read it too.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (pin, unpin, freeze, unfreeze, disable, enable, block, unblock):
        app.command()(command)


def who() -> str:
    """Who asks: TIDEGATE_REQUESTED_BY where it is set, else the user of this process."""
    from tidegate_serving.control_client import who_asks

    return os.environ.get("TIDEGATE_REQUESTED_BY") or who_asks()


def pin(name: Name, version: Version, reason: Reason = "", control: Control = DEFAULT_CONTROL) -> None:
    """Keep ordinary traffic on one version. Whatever sources propose is still loaded.

    \b
    Example:
      tidegate pin flights 2 --reason "3 is slow"
    """
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        _tell(client.pin(name, version, requested_by=who(), reason=reason))


def unpin(name: Name, reason: Reason = "", control: Control = DEFAULT_CONTROL) -> None:
    """Let ordinary traffic follow the model's source again.

    \b
    Example:
      tidegate unpin flights
    """
    _override("unpin", name, reason, control)


def freeze(name: Name, reason: Reason = "", control: Control = DEFAULT_CONTROL) -> None:
    """Refuse every change of a model until `unfreeze`.

    Pushes, promotions and rollbacks are refused with who froze it and why; what a watched repository brings is held
    back. The kill switch works all the same.

    \b
    Example:
      tidegate freeze flights --reason "audit until Monday"
    """
    _override("freeze", name, reason, control)


def unfreeze(name: Name, reason: Reason = "", control: Control = DEFAULT_CONTROL) -> None:
    """Let a model change again; what was held back comes in.

    \b
    Example:
      tidegate unfreeze flights
    """
    _override("unfreeze", name, reason, control)


def disable(name: Name, reason: NeededReason, control: Control = DEFAULT_CONTROL) -> None:
    """The kill switch: refuse every request for a model.

    Clients get the reason. Versions stay loaded, so `enable` takes effect at once.

    \b
    Example:
      tidegate disable flights --reason "prices are wrong, see INC-42"
    """
    _override("disable", name, reason, control)


def enable(name: Name, reason: Reason = "", control: Control = DEFAULT_CONTROL) -> None:
    """Answer requests for a model again.

    \b
    Example:
      tidegate enable flights
    """
    _override("enable", name, reason, control)


def block(name: Name, version: Version, reason: NeededReason, control: Control = DEFAULT_CONTROL) -> None:
    """Keep a version from serving in this engine, now and later.

    What served before takes its place. Until that is loaded, and where there is nothing else, no request is answered.
    To revoke a version in every engine that trusts a key, see `tidegate revoke`.

    \b
    Example:
      tidegate block flights 3 --reason "trained on leaked labels"
    """
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        _tell(client.block(name, version, requested_by=who(), reason=reason))


def unblock(name: Name, version: Version, reason: Reason = "", control: Control = DEFAULT_CONTROL) -> None:
    """Let a blocked version serve again. Its source must still want it.

    \b
    Example:
      tidegate unblock flights 3
    """
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        _tell(client.unblock(name, version, requested_by=who(), reason=reason))


def _override(action: str, name: str, reason: str, control: EngineConnection) -> None:
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        _tell(client.override(action, name, requested_by=who(), reason=reason))


def _tell(outcome: Outcome) -> None:
    say(outcome.sentence)
