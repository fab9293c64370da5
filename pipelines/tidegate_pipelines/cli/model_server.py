"""`tidegate model-server`: the engine behind TensorFlow Serving's own command line.

In come the flags of TensorFlow Serving's binary, untouched; `tidegate_serving.model_server` serves.
"""

from __future__ import annotations

import logging
import sys

import typer

_ALL = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("model-server", context_settings=_ALL)(model_server)


def model_server(context: typer.Context) -> None:
    """Serve with TensorFlow Serving's flags and files, unchanged.

    SavedModels are served as they lie there, without a manifest or a verdict. SIGHUP reads the files again.

    \b
    Examples:
      tidegate model-server --model_name=flights --model_base_path=/models/flights --rest_api_port=8501
      tidegate model-server --model_config_file=/models/models.config --model_config_file_poll_wait_seconds=5
      tidegate model-server --help
    """
    from tidegate_serving.model_server import run_model_server
    from tidegate_serving.tensorflow_serving.flag_table import flags_help

    if "--help" in context.args:
        typer.echo(flags_help())
        raise typer.Exit
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    raise typer.Exit(run_model_server(context.args))
