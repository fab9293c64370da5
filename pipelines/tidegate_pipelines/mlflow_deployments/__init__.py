"""MLflow's own commands for an engine: the plugin that `mlflow deployments -t tidegate://HOST:PORT` loads.

A deployment is a servable, and to create or update one is to release a version: gates, signed verdict and all.
"""

from tidegate_pipelines.mlflow_deployments.client import TidegateDeploymentClient
from tidegate_pipelines.mlflow_deployments.local import run_local
from tidegate_pipelines.mlflow_deployments.settings import target_help

__all__ = ["TidegateDeploymentClient", "run_local", "target_help"]
