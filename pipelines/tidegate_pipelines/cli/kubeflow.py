"""`tidegate kubeflow`: the pipelines and components that a Kubeflow cluster takes, as files."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say

_HELP = """Compile pipelines for Kubeflow.

\b
Examples:
  tidegate kubeflow compile release -o release.yaml --claim models=/models \\
      --signing-secret validator=/etc/tidegate/keys --secret-env TIDEGATE_TOKEN=engine/token
  tidegate kubeflow compile components -o components/
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="kubeflow")


@app.callback()
def _group() -> None:
    pass


class What(enum.StrEnum):
    """What can be compiled."""

    RELEASE = "release"
    MONITOR = "monitor"
    COMPONENTS = "components"


@app.command("compile")
def compile_(
    what: Annotated[What, typer.Argument(metavar="WHAT", help="release, monitor, or components.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The YAML to write; a folder for components.")
    ],
    image: Annotated[
        str | None, typer.Option("--image", help="What the tasks run.", envvar="TIDEGATE_IMAGE", show_default=False)
    ] = None,
    claim: Annotated[
        list[str] | None, typer.Option("--claim", metavar="CLAIM=PATH", help="Mount a volume claim in every task.")
    ] = None,
    signing_secret: Annotated[
        list[str] | None,
        typer.Option(
            "--signing-secret", metavar="SECRET=PATH", help="Mount the key's Secret where a verdict is signed."
        ),
    ] = None,
    secret_volume: Annotated[
        list[str] | None, typer.Option("--secret-volume", metavar="SECRET=PATH", help="Mount a Secret, with a CA say.")
    ] = None,
    secret_env: Annotated[
        list[str] | None, typer.Option("--secret-env", metavar="NAME=SECRET/KEY", help="A variable from a Secret.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable, TIDEGATE_CONTROL say.")
    ] = None,
) -> None:
    """Write the YAML of a pipeline, or of every component.

    It holds no secret, only the names of Secrets. Options with = may be repeated; they are for pipelines.

    \b
    Examples:
      tidegate kubeflow compile release -o release.yaml
      tidegate kubeflow compile monitor -o monitor.yaml --env TIDEGATE_CONTROL=tidegates://engine:8502 \\
          --secret-env TIDEGATE_TOKEN=engine/token
    """
    from tidegate_serving.contract.errors import Unsupported

    try:
        from tidegate_pipelines.kubeflow import PodSettings, compile_components, compile_pipeline
    except ImportError as error:
        raise Unsupported(f"{error}: Kubeflow needs the extra, `pip install 'tidegate[kfp]'`") from error
    settings = {
        "--claim": _pairs("--claim", claim),
        "--signing-secret": _pairs("--signing-secret", signing_secret),
        "--secret-volume": _pairs("--secret-volume", secret_volume),
        "--secret-env": _pairs("--secret-env", secret_env),
        "--env": _pairs("--env", env),
    }
    if what is What.COMPONENTS:
        for option, given in settings.items():
            if given:
                raise typer.BadParameter("is for pipelines: a component gets it in yours", param_hint=option)
        written = compile_components(output, image)
        say(f"{len(written)} components in {output}")
        return
    pods = PodSettings(
        image=image,
        claims=settings["--claim"],
        signing_secrets=settings["--signing-secret"],
        secret_volumes=settings["--secret-volume"],
        secret_variables={name: _key(value) for name, value in settings["--secret-env"].items()},
        variables=settings["--env"],
    )
    compile_pipeline(what.value, output, pods)
    say(f"pipeline tidegate-{what.value} in {output}: upload it, or `kfp run create -f {output}`")


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given or []:
        name, _, value = text.partition("=")
        if not name or not value or name in pairs:
            wrong = "names it twice" if name in pairs else "is not NAME=VALUE"
            raise typer.BadParameter(f"{text!r} {wrong}", param_hint=option)
        pairs[name] = value
    return pairs


def _key(text: str) -> tuple[str, str]:
    secret, _, key = text.partition("/")
    if not secret or not key:
        raise typer.BadParameter(f"{text!r} is not SECRET/KEY", param_hint="--secret-env")
    return secret, key
