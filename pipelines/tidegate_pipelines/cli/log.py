"""`tidegate log`: keeps an inference log in order: few files, no older or larger than asked, rows erased from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.durations import duration
from tidegate_validation.counts import counted

if TYPE_CHECKING:
    from tidegate_operators.steps.log_upkeep import Skipped

_HELP = """Keep an inference log in order.

Engines may write it and others read it meanwhile: a day's folder is replaced in one step. Whoever reads with a plain
pattern sees the old files or the new one, never both; one that listed the old files before that step gets an error for
a file that is gone, and reads again. A run that was killed is put right by the next.

\b
Examples, once a day:
  tidegate log compact log
  tidegate log retain log --days 90 --most-gb 200
  tidegate log erase log --request 8f3a21
  tidegate log erase log --where in.user_id=8812
"""
_GIGABYTE = 1 << 30

Root = Annotated[Path, typer.Argument(metavar="ROOT", help="The log's root folder, the engine's log_path.")]

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="log")


@app.command()
def compact(
    root: Root,
    files: Annotated[int, typer.Option("--files", metavar="N", min=2, help="Small files that a day needs for it.")] = 8,
    settled: Annotated[
        str, typer.Option("--settled", metavar="TIME", help="Only days that got no file for so long.")
    ] = "1h",
    target_mb: Annotated[
        int, typer.Option("--target-mb", metavar="N", min=1, help="How large a merged file gets.")
    ] = 256,
) -> None:
    """Merge the small files of each day.

    \b
    Examples:
      tidegate log compact log
      tidegate log compact log --settled 10m --target-mb 512
    """
    from tidegate_operators.steps.log_upkeep import compact_log

    seconds = duration(settled, "--settled").total_seconds()
    done = compact_log(root, least_files=files, settled=seconds, target_bytes=target_mb << 20)
    files_before = counted(done.files_before, "file")
    say(f"{files_before} of {counted(done.folders, 'day')} became {done.files_after:,}")
    _require_all(done.skipped)


@app.command()
def retain(
    root: Root,
    days: Annotated[
        int | None, typer.Option("--days", metavar="N", min=1, help="Keep the last so many days, with today.")
    ] = None,
    most_gb: Annotated[
        float | None, typer.Option("--most-gb", metavar="N", min=0.0, help="Keep at most so much, the newest days.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
) -> None:
    """Remove the oldest days, whole; today's and later ones stay.

    \b
    Examples:
      tidegate log retain log --days 90 --dry-run
      tidegate log retain log --days 90 --most-gb 200
    """
    from tidegate_operators.steps.log_upkeep import retain_log

    most = None if most_gb is None else int(most_gb * _GIGABYTE)
    done = retain_log(root, days=days, most_bytes=most, dry_run=dry_run)
    for folder in done.removed:
        say(f"{'would remove' if dry_run else 'removed'} {folder}")
    verb = "would free" if dry_run else "freed"
    say(f"{verb} {done.freed_bytes / 1e6:.1f} MB, {done.left_bytes / 1e6:.1f} MB are left")


@app.command()
def erase(
    root: Root,
    request: Annotated[
        list[str] | None, typer.Option("--request", metavar="ID", help="This request; may be given again.")
    ] = None,
    where: Annotated[
        str, typer.Option("--where", metavar="COLUMN=VALUE", help="Rows with this value, such as in.user_id=8812.")
    ] = "",
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Of this model only.")] = "",
) -> None:
    """Erase rows for good, from compacted files too.

    Golden requests, reports and copies made of the log before are not looked at.

    \b
    Examples:
      tidegate log erase log --request 8f3a21 --request 90b1c4
      tidegate log erase log --where in.user_id=8812 --model flights
    """
    from tidegate_operators.steps.log_upkeep import erase_from_log

    column, equals, value = where.partition("=")
    if where and not (column and equals):
        raise typer.BadParameter(f"{where!r} is not COLUMN=VALUE", param_hint="--where")
    done = erase_from_log(root, requests=tuple(request or ()), column=column, value=value, model=model)
    say(f"erased {counted(done.rows, 'row')} from {counted(done.files, 'file')}")
    _require_all(done.skipped)


def _require_all(skipped: tuple[Skipped, ...]) -> None:
    """InvalidInput, so that a schedule notices it, where folders are not done with."""
    from tidegate_serving.contract.errors import InvalidInput

    for one in skipped:
        say(f"{one.folder} is not done: {one.reason}", "WARN")
    if skipped:
        raise InvalidInput(f"{len(skipped)} folders are not done: mend what is told of them, then run again")
