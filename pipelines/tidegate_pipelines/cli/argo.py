"""`tidegate argo`: the AnalysisTemplate for Argo Rollouts, and the endpoint that it asks for a canary's verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.options import Repository

_HELP = """Let Argo Rollouts ask for a canary's verdict.

\b
Examples:
  tidegate argo template | kubectl apply -f -
  tidegate argo serve --repository models --address 0.0.0.0:8504 --certificate tls.crt --key tls.key --token-file token
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="argo")


@app.command()
def template() -> None:
    """Print the AnalysisTemplate.

    \b
    Example:
      tidegate argo template | kubectl apply -f -
    """
    from tidegate_pipelines.argo import analysis_template

    typer.echo(analysis_template(), nl=False)


@app.command()
def serve(
    repository: Repository = Path("models"),
    address: Annotated[str, typer.Option("--address", metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8504",
    certificate: Annotated[Path | None, typer.Option("--certificate", metavar="FILE", help="PEM, for TLS.")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its key, PEM.")] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="The token that who asks has to show.")
    ] = None,
) -> None:
    """Answer /v1/canaries/NAME/VERSION with the verdict.

    JSON whose `state` is running, passed or refused, from what canaries left in the model repository. Beyond loopback
    it needs TLS and a token.

    \b
    Example:
      tidegate argo serve --repository models
    """
    from tidegate_pipelines.argo import CanaryEndpoint, Protection
    from tidegate_serving.connection import read_secret

    token = None if token_file is None else read_secret(token_file)
    endpoint = CanaryEndpoint(repository, address, Protection(certificate, key, token))
    say(f"canaries' verdicts at {endpoint.address}/v1/canaries/NAME/VERSION")
    endpoint.serve()
