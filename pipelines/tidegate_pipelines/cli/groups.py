"""The commands of `tidegate` by task, as its help shows them, and the commands that installed packages add.

A package adds one under the entry point group `tidegate.commands`, as a function with Typer's annotations or as a
`typer.Typer` with commands of its own. It is loaded only where it is called, completed or listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup, TyperOption

from tidegate_serving.contract.errors import Unsupported

if TYPE_CHECKING:
    from importlib import metadata

ENTRY_POINTS = "tidegate.commands"
GROUPS: Mapping[str, Mapping[str, str]] = {
    "Release a model": {
        "publish": "publish",
        "validate": "gate",
        "release": "releases",
        "push": "releases",
        "canary": "releases",
        "compare": "compare",
        "promote": "releases",
        "reconcile": "releases",
        "export": "export",
        "argo": "argo",
        "mlflow": "mlflow",
        "kubeflow": "kubeflow",
        "clean-up": "clean_up",
    },
    "Serve": {
        "serve": "serve",
        "model-server": "serve",
        "predict": "predict",
        "split": "split",
        "fleet": "fleet",
        "hub": "hub",
    },
    "When something is wrong": {
        "status": "status",
        "events": "events",
        "explain": "explain",
        "rollback": "releases",
        "pin": "operations",
        "unpin": "operations",
        "freeze": "operations",
        "unfreeze": "operations",
        "disable": "operations",
        "enable": "operations",
        "block": "operations",
        "unblock": "operations",
        "log-level": "config",
        "support-bundle": "support_bundle",
    },
    "Verdicts and keys": {
        "verify": "verify",
        "override": "override",
        "approve": "approve",
        "revoke": "override",
        "replay": "replay",
        "keys": "keys",
        "audit": "audit",
        "receipt": "receipt",
    },
    "Data and skew": {
        "expectations": "expectations",
        "golden": "golden",
        "warm-up": "warm_up",
        "skew": "skew",
        "monitor": "monitor",
        "backtest": "backtest",
        "log": "log",
    },
    "Configuration": {
        "config": "config",
        "reload": "config",
        "token": "token",
    },
}
"""Commands by task, each with the module beside this one that has it."""
OTHERS = "More"
_ANY_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True}


class CommandGroups(TyperGroup):
    """Tidegate's own commands in the order of `GROUPS`, then those of other packages."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return [*(name for names in self._headings().values() for name in names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None where nobody offers it."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        entry = _offered().get(cmd_name)
        return None if entry is None else _command(entry)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; one that is given an option of `tidegate` itself says where that goes."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            # An option that the command does not have; one that it has may only lack its value.
            given = getattr(error, "option_name", None) if hasattr(error, "possibilities") else None
            mine = next((one for one in self.params if given in one.opts), None)
            if mine is not None and hasattr(error, "message"):
                shown = f"{given} {mine.metavar}" if isinstance(mine, TyperOption) and mine.metavar else given
                error.message += f"; write it before the command: tidegate {shown} {ctx.invoked_subcommand} ..."
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes one section per group."""
        headings = self._headings()
        width = max(len(name) for names in headings.values() for name in names)
        for heading, names in headings.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            room = formatter.width - 6 - width
            rows = [(name.ljust(width), command.get_short_help_str(room)) for name, command in commands]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def _headings(self) -> dict[str, list[str]]:
        own = {heading: [name for name in names if name in self.commands] for heading, names in GROUPS.items()}
        return {**own, OTHERS: [name for name in sorted(_offered()) if name not in self.commands]}


def _offered() -> dict[str, metadata.EntryPoint]:
    from importlib import metadata

    return {entry.name: entry for entry in metadata.entry_points(group=ENTRY_POINTS)}


def _command(entry: metadata.EntryPoint) -> Any:
    """What a package offers, as a command; where that cannot be loaded, one that says so when it is called."""
    try:
        found = entry.load()
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        return _from_function(entry.name, found)
    except Exception as error:
        return _from_function(entry.name, _refusal(entry, error), context_settings=_ANY_ARGUMENTS)


def _from_function(name: str, function: Any, **settings: Any) -> Any:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name, **settings)(function)
    return typer.main.get_command(app)


def _refusal(entry: metadata.EntryPoint, error: Exception) -> Any:
    package = entry.dist.name if entry.dist is not None else entry.value

    def refuse() -> NoReturn:
        """This one cannot be loaded; call it to see why."""
        raise Unsupported(
            f"command {entry.name!r} cannot be loaded ({type(error).__name__}: {error}): mend or reinstall the package "
            f"{package}, which offers it"
        ) from error

    return refuse
