"""`tidegate publish`: puts a trained model into the model repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.options import NO_PROFILE, EventTime, Golden, Label, Repository, Training, version_number
from tidegate_pipelines.cli.progress import progress

Expectations = Annotated[
    Path | None, typer.Option("--expectations", metavar="FOLDER", help="An edited suite; else inferred.")
]
Metadata = Annotated[
    list[str] | None, typer.Option("--metadata", metavar="NAME=VALUE", help="Free text; may be repeated.")
]
WarmUp = Annotated[Path | None, typer.Option("--warm-up", metavar="FILE", help="Requests to run before it serves.")]
AllowPickle = Annotated[bool, typer.Option("--allow-pickle", help="Load a pickle of yours to infer its signature.")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(publish)


def publish(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="The model's files, or its directory.")],
    name: Annotated[str, typer.Option("--name", help="What clients call the model.")],
    version: Annotated[
        int, typer.Option("--version", metavar="VERSION", parser=version_number, help="A number that is not taken.")
    ],
    platform: Annotated[str, typer.Option("--platform", help="onnx, sklearn, tensorflow, xgboost, ...")],
    repository: Repository = Path("models"),
    training: Training = None,
    label: Label = None,
    event_time: EventTime = None,
    signature: Annotated[
        str, typer.Option("--signature", metavar="FILE", help="JSON; 'inferred' reads it off the model.")
    ] = "inferred",
    example: Annotated[
        Path | None, typer.Option("--example", metavar="FILE", help="JSON, a value per input; else from training.")
    ] = None,
    expectations: Expectations = None,
    golden: Golden = None,
    warm_up: WarmUp = None,
    allow_pickle: AllowPickle = False,
    metadata: Metadata = None,
) -> None:
    """Put a trained model into the repository, all at once.

    It lies at ROOT/NAME/VERSION: files are copied, a profile of the training data is made for the skew checks, and a
    manifest lists every file with its SHA-256. It serves only after `tidegate validate` has signed a verdict.

    \b
    Examples:
      tidegate publish model.onnx --name flights --version 1 --platform onnx --training train.parquet \\
          --label late
      tidegate publish model/ --name prices --version 7 --platform python --signature signature.json \\
          --example row.json
    """
    from tidegate_operators.steps import Publication
    from tidegate_operators.steps import publish as run

    publication = Publication(
        files=files,
        servable=name,
        version=version,
        platform=platform,
        repository=repository,
        training=training,
        signature=None if signature == "inferred" else signature,
        example=example,
        label=label,
        event_time=event_time,
        metadata=_pairs(metadata or []),
        expectations=expectations,
        golden=golden,
        warm_up=warm_up,
        allow_pickle=allow_pickle,
    )
    with progress() as shown:
        published = run(publication, shown)
    say(f"published {name}:{version} at {published.directory} (manifest {published.manifest_digest[:12]})")
    if training is None:
        say(NO_PROFILE, "WARN")


def _pairs(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--metadata")
    return dict(text.split("=", 1) for text in texts)
