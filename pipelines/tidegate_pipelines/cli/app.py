"""The `tidegate` command as a whole: its commands, its help, and how errors become one sentence and an exit code.

Commands live in the modules beside this one and import what is heavy when they run.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from tidegate_pipelines.cli.console import harmless, show_log_lines
from tidegate_pipelines.cli.extras import missing
from tidegate_pipelines.cli.groups import GROUPS, CommandGroups
from tidegate_serving.contract.errors import (
    DeadlinePassed,
    ModelFailed,
    NotAdmitted,
    PermissionRefused,
    Refused,
    ResourceExhausted,
    TidegateError,
)

_A_NO = (Refused, NotAdmitted, PermissionRefused, ModelFailed, ResourceExhausted, DeadlinePassed)
_BUG, _BY_SIGNAL = 70, 128
_MODULE_OF = {name: module for modules in GROUPS.values() for name, module in modules.items()}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_MORE_OPEN = {errno.EMFILE, errno.ENFILE}
_NOT_HERE = {
    *(errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EROFS),
    *(errno.ENAMETOOLONG, errno.ELOOP),
    *_FULL,
}
"""What the system says of a path where it is the path's fault, its owner's or the disk's."""

_HELP = """A gate between training and serving: judge a model version, push it, learn from what it saw.

\b
A first release, from nothing:
  tidegate keys new keys/
  tidegate serve --root models --trusted-key keys/ --log-path log &
  tidegate publish model.onnx --name flights --version 1 --platform onnx \\
    --training train.parquet --label late
  tidegate release models/flights/1 --held-out june.parquet --key keys/validator.key
  tidegate predict flights --json '{"distance": 719, "carrier": "UA"}'

\b
The same on a year of real flights, with versions that get refused:
  tidegate demo

Every command explains itself, such as `tidegate publish --help`.
"""

_EPILOG = (
    "Exit status: 0 done, 1 a no (a gate refused, a file was tampered with, a model failed), "
    "2 something to mend (a wrong option, a missing file, no engine at the address)."
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"tidegate {version('tidegate')}")
        raise typer.Exit


def _options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback where something goes wrong.")] = False,
    profile: Annotated[
        str,
        typer.Option("--profile", metavar="NAME", help="An engine named in ~/.config/tidegate/profiles.toml."),
    ] = "",
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    context.obj = {"debug": debug}
    if context.invoked_subcommand not in ("serve", "model-server", "fleet", "hub"):
        show_log_lines(tracebacks=debug)


def _app(modules: Iterable[str]) -> typer.Typer:
    app = typer.Typer(
        cls=CommandGroups,
        help=_HELP,
        epilog=_EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in modules:
        import_module(f"{__package__}.{name}").register(app)
    return app


@cache
def whole_command() -> Any:
    """The command with all below it, as click has it; made once."""
    return typer.main.get_command(_app(dict.fromkeys(_MODULE_OF.values())))


@cache
def _part(module: str) -> Any:
    return typer.main.get_command(_app([module]))


def _command(arguments: Sequence[str]) -> Any:
    """With what the first argument names alone, where that is a command: to make all of them takes longer."""
    module = _MODULE_OF.get(arguments[0]) if arguments else None
    return whole_command() if module is None else _part(module)


def main() -> None:
    """Runs the command that the arguments name and ends the process with its exit status.

    What standard output's encoding does not have is shown escaped. A reader that closes the pipe before all is written
    ends the command as SIGPIPE does, for nobody can say whether it would have been a no.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            _command(sys.argv[1:])()
        finally:
            if sys.stdout is not None:  # closed before the command began
                sys.stdout.flush()
    except SystemExit as ended:
        # Both click and rich end with 1 on a closed pipe, which is a no.
        if isinstance(ended.__context__, BrokenPipeError):
            sys.exit(_end_unread())
        raise
    except BrokenPipeError:
        sys.exit(_end_unread())
    except TidegateError as error:
        _complain(error.message)
        sys.exit(1 if isinstance(error, _A_NO) else 2)
    except Exception as error:
        cure = _cure(error)
        _complain(
            cure or f"this is a fault of Tidegate, not yours: {type(error).__name__}: {error}; --debug shows where"
        )
        if isinstance(error, OSError) and error.errno in _FULL and sys.stdout is not None:
            _drop_output()
        sys.exit(2 if cure else _BUG)


def _cure(error: Exception) -> str:
    """What to mend around Tidegate; empty where the fault is its own."""
    if isinstance(error, ModuleNotFoundError) and (lacks := missing(error)) is not None:
        return lacks.message
    if isinstance(error, OSError) and error.filename and error.errno in _NOT_HERE:
        return f"{error.filename} cannot be used: {error.strerror}: mend the path, its permissions or the disk"
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"nothing more can be written: {error.strerror}: make room where the output or the files go"
    if isinstance(error, OSError) and error.errno in _NO_MORE_OPEN:
        return f"no more files can be opened ({error.strerror}): raise that limit (ulimit -n)"
    return ""


def _end_unread() -> int:
    _drop_output()
    return _BY_SIGNAL + signal.SIGPIPE


def _drop_output() -> None:
    """What is still to be written goes nowhere: Python would fail of it once more while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(sentence: str) -> None:
    if "--debug" in sys.argv:
        import traceback

        traceback.print_exc()
    sys.stderr.write(f"tidegate: {harmless(sentence)}\n")
