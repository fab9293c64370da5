"""`mlflow deployments run-local`: one model in an engine of this process, for a try; no gate is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate_pipelines.mlflow_deployments.client import mlflow_errors
from tidegate_pipelines.mlflow_deployments.model import ModelFiles, published
from tidegate_pipelines.mlflow_deployments.settings import LocalSettings
from tidegate_serving.contract.errors import FailedPrecondition


def run_local(name: str, model_uri: str, flavor: str | None = None, config: Mapping[str, Any] | None = None) -> None:
    """Serves the model as `name` on this machine until the process is interrupted; see `target_help` for config.

    Its files lie in a folder that goes away with it. MlflowException where it cannot be published or served.
    """
    from tidegate_serving.config import EngineConfig
    from tidegate_serving.server import run

    with mlflow_errors():
        settings = LocalSettings.read(config)
        told = (settings.training, settings.sample, settings.label, settings.event_time)
        model = ModelFiles(model_uri, settings.tracking_uri, *told)
        model.check_flavor(flavor)
        with tempfile.TemporaryDirectory(prefix="tidegate-local-") as folder:
            directory = published(model, name, Path(folder), None)
            ended = run(
                EngineConfig(
                    repository=Path(folder),
                    allow_unverified=True,
                    allow_pickle=settings.allow_pickle,
                    grpc_address=settings.grpc_address,
                    rest_address=settings.rest_address,
                    control_address="127.0.0.1:0",
                    ready_file=settings.ready_file,
                )
            )
            if ended:
                raise FailedPrecondition(
                    f"the engine for {name}:{directory.name} ended with status {ended}: see its lines"
                )
