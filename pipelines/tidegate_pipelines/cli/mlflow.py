"""`tidegate mlflow`: publishes a registered version, and tells the registry what the gates said of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.options import NO_PROFILE, EventTime, Label, Repository, Training
from tidegate_pipelines.cli.progress import progress

Uri = Annotated[
    str, typer.Option("--uri", envvar="MLFLOW_TRACKING_URI", help="MLflow's tracking server, http://HOST:PORT.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The registered model's name.")]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="Its number, or @ALIAS.")]

_HELP = """Publish from MLflow's registry, and tell it verdicts.

\b
Examples:
  tidegate mlflow publish flights 3 --uri http://127.0.0.1:5000 --training train.parquet --label late
  tidegate validate models/flights/3 --held-out june.parquet --key keys/validator.key
  tidegate mlflow record models/flights/3 --uri http://127.0.0.1:5000 --key keys/
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="mlflow")


@app.command()
def publish(
    name: Name,
    version: Version,
    uri: Uri,
    repository: Repository = Path("models"),
    training: Training = None,
    label: Label = None,
    event_time: EventTime = None,
) -> None:
    """Publish a registered version, under the registry's number.

    It is downloaded and put into the model repository.
    """
    from tidegate_operators.steps.mlflow_registry import RegisteredVersion, check_server_answers, publish_registered

    check_server_answers(uri)
    registered = RegisteredVersion(uri, name, version)
    with progress() as shown:
        published = publish_registered(
            registered, repository=repository, training=training, label=label, event_time=event_time, progress=shown
        )
    say(f"published {registered} at {published.directory} (manifest {published.manifest_digest[:12]})")
    if training is None:
        say(NO_PROFILE, "WARN")


@app.command()
def record(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The version's directory, ROOT/NAME/VERSION.")],
    uri: Uri,
    key: Annotated[
        list[Path], typer.Option("--key", metavar="FILE", help="A public key or a key ring that must have signed.")
    ],
) -> None:
    """Tell the registry what the gates said of a version.

    As tags, metrics of its run, the verdict and the report.
    """
    from tidegate_operators.steps.mlflow_registry import RegisteredVersion, check_server_answers, record_verdict
    from tidegate_serving.admission import read_trust, trusted_verdict
    from tidegate_serving.contract.manifest import read_manifest
    from tidegate_serving.contract.repository import verdict_path

    directory = directory.absolute()
    manifest, _ = read_manifest(directory)
    verdict = trusted_verdict(verdict_path(directory), read_trust(key)).verdict
    registered = RegisteredVersion(uri, manifest.id.name, str(manifest.id.version))
    check_server_answers(uri)
    metrics = record_verdict(registered, verdict, directory)
    say(f"recorded {verdict.outcome.value} and {len(metrics)} metrics for {registered}")
