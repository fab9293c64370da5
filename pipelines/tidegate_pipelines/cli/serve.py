"""`tidegate serve` and `tidegate model-server`: run the engine in this process until SIGTERM.

The one takes options, a TOML file and `TIDEGATE_*` variables, the other TensorFlow Serving's own flags.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.options import GrpcAddress, RestAddress

Repository = Annotated[
    Path | None, typer.Option("--repository", metavar="ROOT", help="Serve the newest versions found here.")
]
Roots = Annotated[
    list[Path] | None,
    typer.Option("--root", metavar="ROOT", help="Pushes may name versions under here; may be repeated."),
]
TrustedKeys = Annotated[
    list[Path] | None,
    typer.Option("--trusted-key", metavar="FILE", help="A key ring, or a validator's public key; may be repeated."),
]
OverridePolicy = Annotated[
    Path | None,
    typer.Option("--override-policy", metavar="FILE", help="Policy that says who may override which gate."),
]
AllowUnverified = Annotated[
    bool | None, typer.Option("--allow-unverified", help="Serve without a verdict. For development only.")
]
AllowPickle = Annotated[bool | None, typer.Option("--allow-pickle", help="Load pickle files, which can run any code.")]
StateDirectory = Annotated[
    Path | None, typer.Option("--state", metavar="FOLDER", help="Remember pushes across restarts.")
]
LogPath = Annotated[Path | None, typer.Option("--log-path", metavar="ROOT", help="Write the inference log here.")]
SamplingRate = Annotated[
    float | None,
    typer.Option("--log-sampling-rate", metavar="SHARE", min=0.0, max=1.0, help="Share of requests logged."),
]
ReadyFile = Annotated[
    Path | None, typer.Option("--ready-file", metavar="FILE", help="Gets the addresses as JSON once ready.")
]
_ALL_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(serve)
    app.command("model-server", context_settings=_ALL_ARGUMENTS)(model_server)


def serve(
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML with any setting.")] = None,
    repository: Repository = None,
    root: Roots = None,
    trusted_key: TrustedKeys = None,
    override_policy: OverridePolicy = None,
    allow_unverified: AllowUnverified = None,
    allow_pickle: AllowPickle = None,
    grpc_address: GrpcAddress = None,
    rest_address: RestAddress = None,
    control_address: Annotated[
        str | None, typer.Option("--control-address", metavar="HOST:PORT", help="Where pushes come in.")
    ] = None,
    state_directory: StateDirectory = None,
    log_path: LogPath = None,
    log_sampling_rate: SamplingRate = None,
    ready_file: ReadyFile = None,
) -> None:
    """Run the engine: gRPC, REST and the control port.

    Ports are 8500, 8501 and 8502, the last for pushes from this machine.

    TensorFlow Serving's clients work unchanged. Port 0 takes any free port. Options win over TIDEGATE_* variables,
    these over the TOML file. SIGHUP reads the file again, SIGTERM drains and ends.

    \b
    Examples:
      tidegate serve --root models --trusted-key keys/ --log-path log --state state
      tidegate serve --repository models --allow-unverified
    """
    from tidegate_serving.config import EngineConfig
    from tidegate_serving.log_lines import log_to_stderr
    from tidegate_serving.server import run

    log_to_stderr()
    overrides = {
        "repository": repository,
        "roots": tuple(path.absolute() for path in root) if root else None,
        "trusted_keys": tuple(trusted_key) if trusted_key else None,
        "override_policy": override_policy,
        "allow_unverified": allow_unverified,
        "allow_pickle": allow_pickle,
        "grpc_address": grpc_address,
        "rest_address": rest_address,
        "control_address": control_address,
        "state_directory": state_directory,
        "log_path": log_path,
        "log_sampling_rate": log_sampling_rate,
        "ready_file": ready_file,
    }

    def read() -> EngineConfig:
        return EngineConfig.load(config, overrides=overrides)

    raise typer.Exit(run(read(), read))


def model_server(context: typer.Context) -> None:
    """Serve with TensorFlow Serving's own flags and files.

    SavedModels are served as they lie there, without a manifest or a verdict. SIGHUP reads the files again.

    \b
    Examples:
      tidegate model-server --model_name=flights --model_base_path=/models/flights --rest_api_port=8501
      tidegate model-server --model_config_file=/models/models.config --model_config_file_poll_wait_seconds=5
      tidegate model-server --help
    """
    from tidegate_serving.log_lines import log_to_stderr
    from tidegate_serving.model_server import run_model_server
    from tidegate_serving.tensorflow_serving.flag_table import flags_help

    if "--help" in context.args:
        typer.echo(flags_help())
        raise typer.Exit
    log_to_stderr()
    raise typer.Exit(run_model_server(context.args))
