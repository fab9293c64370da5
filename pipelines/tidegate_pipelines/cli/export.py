"""`tidegate export`: gives an admitted version to TensorFlow Serving, Triton or KServe.

The work is `tidegate_operators.steps.export`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.options import Directory

if TYPE_CHECKING:
    from tidegate_operators.steps.export import AdmittedVersion, Exported

Trusted = Annotated[
    list[Path], typer.Option("--key", metavar="FILE", help="A public key or a key ring; may be repeated.")
]
OverridePolicy = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Policy whose [[override]] rules count.")
]
Target = Annotated[Path, typer.Argument(metavar="REPOSITORY", help="The other server's model repository.")]

_HELP = """Give an admitted version to another server.

Only what `tidegate verify` finds admitted is written: signed by a trusted key, for exactly these files, allowed, not
revoked and in time. Written again, nothing changes; files of somebody else are never replaced.

\b
Examples:
  tidegate export tensorflow-serving models/flights/2 /srv/models --key keys/
  tidegate export triton models/flights/2 /srv/triton --key keys/
  tidegate export kserve models/flights/2 flights --key keys/ --storage-uri s3://bucket/models/flights/2
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="export")


@app.command("tensorflow-serving")
def tensorflow_serving(
    directory: Directory,
    repository: Target,
    key: Trusted,
    policy: OverridePolicy = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The server's model_config_file; names the version.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="LABEL", help="A label that points to the version then; may be repeated."),
    ] = None,
) -> None:
    """Write a SavedModel for TensorFlow Serving.

    REPOSITORY/NAME/VERSION appears all at once, with the same number. Labels need --config, which the server reads
    again where it runs with --model_config_file_poll_wait_seconds.

    \b
    Example:
      tidegate export tensorflow-serving models/flights/2 /srv/models --key keys/ --config models.config --label stable
    """
    from tidegate_operators.steps.export import export_tensorflow_serving

    version = _admitted(directory, key, policy)
    _show(export_tensorflow_serving(version, repository, config=config, labels=label or ()))


@app.command()
def triton(
    directory: Directory,
    repository: Target,
    key: Trusted,
    policy: OverridePolicy = None,
    max_batch_size: Annotated[
        int,
        typer.Option(
            "--max-batch-size", metavar="N", min=0, help="Where the tensors have a batch axis; 0 for no batches."
        ),
    ] = 64,
    keep_config: Annotated[bool, typer.Option("--keep-config", help="Leave a config.pbtxt that is there.")] = False,
) -> None:
    """Write an ONNX model or SavedModel for Triton.

    REPOSITORY/NAME/VERSION, and config.pbtxt from the signature. What Triton cannot load is refused, with the reason.

    \b
    Example:
      tidegate export triton models/flights/2 /srv/triton --key keys/
    """
    from tidegate_operators.steps.export import export_triton

    version = _admitted(directory, key, policy)
    _show(export_triton(version, repository, max_batch_size=max_batch_size, keep_config=keep_config))


@app.command()
def kserve(
    directory: Directory,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="Name of the InferenceService.")],
    key: Trusted,
    storage_uri: Annotated[
        str, typer.Option("--storage-uri", metavar="URL", help="Where KServe finds the version: ROOT/NAME/VERSION.")
    ],
    policy: OverridePolicy = None,
    namespace: Annotated[str, typer.Option("--namespace", help="Else that of the pod or kubeconfig.")] = "",
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Else the pod's.")] = None,
    context: Annotated[str, typer.Option("--context", help="Of the kubeconfig, else its current one.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the patch and send nothing.")] = False,
) -> None:
    """Point a KServe InferenceService to the version.

    A JSON merge patch of storageUri, and of annotations with the verdict and the SHA-256 of verdict and manifest. What
    lies at --storage-uri has to be what was signed for.

    \b
    Example:
      tidegate export kserve models/flights/2 flights --key keys/ --storage-uri s3://bucket/models/flights/2 --dry-run
    """
    from tidegate_operators.steps.export import KubernetesApi, patch_kserve

    version = _admitted(directory, key, policy)
    api = None if dry_run else KubernetesApi.found(kubeconfig, context)
    done = patch_kserve(version, service=service, storage_uri=storage_uri, namespace=namespace, api=api)
    if dry_run:
        typer.echo(json.dumps(done.patch, indent=1))
    else:
        say(f"InferenceService {service} loads {version.manifest.id} from {storage_uri}")


def _admitted(directory: Path, key: list[Path], policy: Path | None) -> AdmittedVersion:
    from tidegate_operators.steps.export import admitted

    return admitted(directory, trusted=key, policy=policy)


def _show(done: Exported) -> None:
    say(f"{done.id} is in {done.directory}" + ("" if done.changed else ", as it was"))
