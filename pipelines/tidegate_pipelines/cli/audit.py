"""`tidegate audit`: whether the hub's audit log, or a copy of it, is whole; and a copy in files or an object store.

The work is `tidegate_pipelines.hub.audit`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_validation.counts import counted

if TYPE_CHECKING:
    from tidegate_pipelines.hub.config import HubConfig
    from tidegate_pipelines.hub.store import Database

app = typer.Typer(help="Check and copy the hub's audit log.", no_args_is_help=True, rich_markup_mode=None)
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The hub's config.")]
Directory = Annotated[Path | None, typer.Option("--directory", metavar="FOLDER", help="The hub's folder.")]
_MOST_SHOWN = 50


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="audit")


@app.callback()
def _group() -> None:
    """Check and copy the hub's audit log."""


@app.command()
def verify(
    config: Config = None,
    directory: Directory = None,
    export: Annotated[
        str, typer.Option("--export", metavar="URL", help="A copy: a folder, or a store such as s3://bucket/audit.")
    ] = "",
    alone: Annotated[bool, typer.Option("--alone", help="Check the copy by itself, without the database.")] = False,
) -> None:
    """Find lines that are missing, changed, reordered or replaced.

    Each line carries the hash of the one before it, so nothing can be taken out of the middle unseen. Whoever can
    write the whole database could write a new log; a copy that they cannot reach shows it: name it with --export.

    Exit status 0 if the log is whole, 1 if not; each line that is wrong is named.

    \b
    Examples:
      tidegate audit verify
      tidegate audit verify --config hub.toml --export s3://bucket/audit
      tidegate audit verify --export audit-copy --alone
    """
    from tidegate_pipelines.hub.audit import AuditLog, ExportStore, verify_database, verify_export

    if alone:
        if not export:
            raise typer.BadParameter("name the copy with --export", param_hint="--alone")
        found = [("the copy", verify_export(ExportStore(export, _options(config, directory))))]
    else:
        database = _database(config, directory)
        log = AuditLog(database)
        found = [("the database", verify_database(log))]
        if export:
            found.append(("the copy", verify_export(ExportStore(export, _options(config, directory)), log)))
        database.close()
    for where, one in found:
        for fault in one.faults[:_MOST_SHOWN]:
            say(f"{where}: {fault.sentence}", "FAIL")
        if one.whole:
            head = f", the last one's hash is {one.head}" if one.lines else ""
            say(f"{where}: {counted(one.lines, 'line')}, {one.first:,} to {one.last:,}, nothing is wrong{head}", "PASS")
    if not all(one.whole for _, one in found):
        raise typer.Exit(1)


@app.command()
def export(
    to: Annotated[str, typer.Argument(metavar="URL", help="A folder, or a store such as s3://bucket/audit.")],
    config: Config = None,
    directory: Directory = None,
) -> None:
    """Copy the lines that no copy has yet, as files of JSON lines.

    A hub with `export` under [audit] does that by itself.

    \b
    Examples:
      tidegate audit export audit-copy
      tidegate audit export s3://bucket/audit --config hub.toml
    """
    from tidegate_pipelines.hub.audit import AuditLog, ExportStore

    database = _database(config, directory)
    written = ExportStore(to, _options(config, directory)).export(AuditLog(database))
    database.close()
    say(f"{counted(written, 'line was', 'lines were')} copied to {to}")


def _database(config: Path | None, directory: Path | None) -> Database:
    """The hub's. NotFound where it is a file that is not there: SQLite would make an empty one."""
    from tidegate_pipelines.hub.store import Database
    from tidegate_serving.contract.errors import NotFound

    database = Database(_read(config, directory).database_url)
    file = database.url.database
    if not database.is_postgresql and not (file and Path(file).is_file()):
        raise NotFound(f"no hub keeps its database at {file}: name its folder with --directory, or its --config")
    return database


def _read(config: Path | None, directory: Path | None) -> HubConfig:
    from tidegate_pipelines.hub.config import HubConfig

    return HubConfig.load(config, overrides={"directory": directory})


def _options(config: Path | None, directory: Path | None) -> dict[str, object]:
    return dict(_read(config, directory).audit.options)
