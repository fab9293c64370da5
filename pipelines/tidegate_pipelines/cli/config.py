"""`tidegate config`, `reload` and `log-level`: how an engine is set up, what another file would change, changing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.operations import Reason, who
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control, MaybeControl

if TYPE_CHECKING:
    from tidegate_serving.config.view import ConfigDiff, ConfigValue
    from tidegate_serving.connection import EngineConnection

config = typer.Typer(help="Show an engine's config, or compare two of them.", no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(config, name="config")
    app.command()(reload)
    app.command("log-level")(log_level)


@config.command()
def show(
    file: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML with any setting.")] = None,
    control: MaybeControl = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only what is not a default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every value, and where it came from.

    Of a file and this shell's TIDEGATE_* variables, or of an engine that runs. What is printed can be used as a file
    again. A running engine does not give away the secrets in [sources] and [platforms]: it says that they are set.

    \b
    Examples:
      tidegate config show --config engine.toml
      tidegate config show --control 127.0.0.1:8502 --changed
    """
    from tidegate_serving.config.view import to_toml

    values = [value for value in _values(file, control) if not changed or not value.is_default]
    if as_json:
        rows = [{"key": value.key, "value": value.value, "origin": value.origin} for value in values]
        typer.echo(json.dumps({"format": "tidegate.config/1", "values": rows}, indent=1))
    else:
        typer.echo(to_toml(values), nl=False)


@config.command()
def diff(
    new: Annotated[Path, typer.Argument(metavar="FILE", help="TOML that somebody wants to live by.")],
    old: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML to compare with.")] = None,
    control: MaybeControl = None,
    as_json: AsJson = False,
) -> None:
    """Show what a file would change.

    Beside another file, both with this shell's TIDEGATE_* variables, or beside what a running engine lives by, whose
    own variables and command line win over the file. Secrets can only be compared by that engine itself:
    `tidegate reload --dry-run`.

    \b
    Examples:
      tidegate config diff new.toml --config engine.toml
      tidegate config diff new.toml --control 127.0.0.1:8502
    """
    from tidegate_serving.config.view import as_reread, diff_values, seen

    before = _values(old, control)
    after = _values(new, None) if control is None else seen(as_reread(new, before))
    _print(diff_values(before, after), as_json)


def reload(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    reason: Reason = "",
    control: Control = DEFAULT_CONTROL,
    as_json: AsJson = False,
) -> None:
    """Have a running engine read its config again. All or nothing; SIGHUP does the same.

    \b
    Examples:
      tidegate reload --dry-run
      tidegate reload --reason "more room for batches"
    """
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        found = client.reload(dry_run=dry_run, requested_by=who(), reason=reason)
    _print(found, as_json)


def log_level(
    level: Annotated[str, typer.Argument(metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")],
    logger: Annotated[str, typer.Option("--logger", metavar="NAME", help="One logger; else all of the engine.")] = "",
    reason: Reason = "",
    control: Control = DEFAULT_CONTROL,
) -> None:
    """Change how much a running engine logs.

    \b
    Examples:
      tidegate log-level DEBUG
      tidegate log-level WARNING --logger tidegate_serving.sources
    """
    from tidegate_serving.control_client import ControlClient

    with ControlClient(control) as client:
        before = client.set_log_level(level.upper(), logger, requested_by=who(), reason=reason)
    say(f"{logger or 'the engine'} logs at {level.upper()} now, at {before} before")


def _values(file: Path | None, control: EngineConnection | None) -> list[ConfigValue]:
    from tidegate_serving.config import EngineConfig
    from tidegate_serving.config.view import effective
    from tidegate_serving.contract.errors import InvalidInput
    from tidegate_serving.control_client import ControlClient

    if control is None:
        return effective(EngineConfig.load(file))
    if file is not None:
        raise InvalidInput("--config and --control cannot both be asked: leave out one of them")
    with ControlClient(control) as client:
        return client.config()


def _print(found: ConfigDiff, as_json: bool) -> None:
    if as_json:
        rows = [
            {"key": change.key, "before": change.before, "after": change.after, "fixed": change.fixed}
            for change in found.changes
        ]
        document = {"format": "tidegate.config-diff/1", "changes": rows, "not_compared": list(found.unseen)}
        typer.echo(json.dumps(document, indent=1))
    else:
        say(str(found))
