"""`tidegate expectations`: infers the suites of data expectations as files to edit, and shows them in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.options import Training
from tidegate_validation.counts import counted

if TYPE_CHECKING:
    from tidegate_validation.expectations import Suites
    from tidegate_validation.statistics import Profile

_HELP = """Infer data expectations from training data, and show them.

They are two files in Great Expectations' own format: suite.json, of every row, and statistics.json, of the table's
missing shares, ranges and quartiles. Edit bounds, `mostly` and `severity` (critical refuses a version, warning and info
do not), add expectations of your own, and publish with --expectations: the version carries them, its manifest lists
them, and the expectations gate goes by them.

\b
Examples:
  tidegate expectations infer --training train.parquet --label late --out expectations/
  tidegate expectations show expectations/
  tidegate publish model.onnx ... --expectations expectations/
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="expectations")


@app.command()
def infer(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", file_okay=False, help="Where to write the two files.")
    ],
    version: Annotated[
        Path | None, typer.Argument(metavar="VERSION", help="A version's directory, for its profile.")
    ] = None,
    training: Training = None,
    label: Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="The truth in the data.")] = None,
    event_time: Annotated[
        str | None, typer.Option("--event-time", metavar="COLUMN", help="Time of the event, not checked.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Policy whose [expectations] thresholds count.")
    ] = None,
) -> None:
    """Write the suites that a training profile suggests.

    \b
    Examples:
      tidegate expectations infer --training train.parquet --label late --out expectations/
      tidegate expectations infer models/flights/1 --out expectations/
    """
    from tidegate_serving.contract.errors import AlreadyExists, InvalidInput
    from tidegate_validation.expectations import Suites, write_suites
    from tidegate_validation.policy import Policy

    if (version is None) == (training is None):
        raise InvalidInput("expectations are inferred from a version or from --training data: give one of the two")
    if (out / "suite.json").exists():
        raise AlreadyExists(f"{out / 'suite.json'} exists, perhaps edited: remove it first, or choose another folder")
    profile = _profile(version) if version is not None else _made(training, label, event_time)
    suites = Suites.inferred(profile, Policy.load(policy).expectations)
    write_suites(suites, out)
    say(f"wrote {counted(len(suites.rows), 'expectation')} of every row to {out / 'suite.json'}")
    say(f"wrote {counted(len(suites.statistics), 'expectation')} of the statistics to {out / 'statistics.json'}")


@app.command()
def show(
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with suites, or a version's directory.")],
) -> None:
    """Say in words what is expected of the data.

    \b
    Example:
      tidegate expectations show models/flights/1
    """
    suites = _suites(target)
    for title, expectations in (("every row", suites.rows), ("the whole table", suites.statistics)):
        rows = [
            (one.subject, one.severity, f"{one.meta.get('statistic', '')} {one.words}".strip()) for one in expectations
        ]
        show_table(f"Expected of {title}", ("column", "severity", "that it"), rows)


def _suites(target: Path) -> Suites:
    from tidegate_serving.contract.errors import NotFound
    from tidegate_serving.contract.manifest import FILE_NAME
    from tidegate_serving.contract.repository import expectations_directory
    from tidegate_validation.expectations import read_suites

    for folder in (expectations_directory(target), target):
        if (suites := read_suites(folder)) is not None:
            return suites
    if not target.is_dir():
        raise NotFound(f"{target} is no folder, of a version or of suites: check the path")
    if (target / FILE_NAME).is_file():
        raise NotFound(
            f"the version in {target} carries no suites, so that the gate infers them from its training profile: write "
            f"those with `tidegate expectations infer {target} --out FOLDER`, and show FOLDER"
        )
    raise NotFound(f"{target} holds neither a version nor a suite.json: check the path")


def _profile(version: Path) -> Profile:
    from tidegate_serving.contract.manifest import read_manifest
    from tidegate_serving.contract.repository import profile_directory
    from tidegate_validation.statistics import read_profile

    read_manifest(version)  # which says what else the path is
    return read_profile(profile_directory(version))


def _made(training: object, label: str | None, event_time: str | None) -> Profile:
    from tidegate_validation.statistics import make_profile
    from tidegate_validation.tables import as_table

    table = as_table(training, "training data")
    apart = {name for name in (label, event_time) if name}
    features = [name for name in table.column_names if name not in apart]
    return make_profile(table, features=features, label=label, event_time=event_time)
