"""The deployment client that MLflow makes of a target: create, update, delete, list, get and predict, on one engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from mlflow.deployments import BaseDeploymentClient, PredictionsResponse
from mlflow.exceptions import MlflowException
from mlflow.protos import databricks_pb2

from tidegate_operators.steps import Evidence
from tidegate_operators.steps.mlflow_registry import PLATFORM, record_verdict
from tidegate_operators.steps.retire import retire
from tidegate_pipelines.mlflow_deployments.model import ModelFiles, published
from tidegate_pipelines.mlflow_deployments.settings import ReleaseSettings
from tidegate_pipelines.release import Release, release
from tidegate_pipelines.rows import arrays_of, plain_values
from tidegate_serving.admission import claimed_verdict
from tidegate_serving.client import Client
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import (
    AlreadyExists,
    DeadlinePassed,
    InvalidInput,
    NotFound,
    PermissionRefused,
    ResourceExhausted,
    TidegateError,
    Unavailable,
)
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import State
from tidegate_serving.contract.signature import default_name
from tidegate_serving.control_client import ControlClient

if TYPE_CHECKING:
    from tidegate_serving.control_client import ServableStatus

_CODES = {
    InvalidInput: databricks_pb2.INVALID_PARAMETER_VALUE,
    NotFound: databricks_pb2.RESOURCE_DOES_NOT_EXIST,
    AlreadyExists: databricks_pb2.RESOURCE_ALREADY_EXISTS,
    PermissionRefused: databricks_pb2.PERMISSION_DENIED,
    ResourceExhausted: databricks_pb2.RESOURCE_LIMIT_EXCEEDED,
    DeadlinePassed: databricks_pb2.TEMPORARILY_UNAVAILABLE,
    Unavailable: databricks_pb2.TEMPORARILY_UNAVAILABLE,
}
_ANYWHERE = ("0.0.0.0", "[::]")


class TidegateDeploymentClient(BaseDeploymentClient):
    """Deployments on the engine, or the group of engines, that a target such as `tidegate://127.0.0.1:8502` names.

    Every error is an MlflowException with the sentence that says what to do. `endpoint` has no meaning here.
    """

    def __init__(self, target_uri: str) -> None:
        super().__init__(target_uri)  # type: ignore[no-untyped-call]
        with mlflow_errors():
            self._environment, self._is_bare = _environment(target_uri)
            self._connection = EngineConnection.from_environment(self._environment)

    def create_deployment(
        self,
        name: str,
        model_uri: str,
        flavor: str | None = None,
        config: Mapping[str, Any] | None = None,
        endpoint: str | None = None,
    ) -> dict[str, Any]:
        """Publishes the model and releases it as `name`, which nothing serves under yet; see `target_help` for config.

        A version that is released already is returned as it is, so that it can be called again. A refusal raises, and
        the registry has the verdict.
        """
        with mlflow_errors():
            settings = ReleaseSettings.read(config)
            directory = _publish(name, model_uri, flavor, settings)
            serving = self._serving(name)
            if serving not in (None, int(directory.name)):
                raise AlreadyExists(
                    f"deployment {name!r} is there already, with version {serving}: use `mlflow deployments update`"
                )
            return self._release(name, model_uri, directory, settings)

    def update_deployment(
        self,
        name: str,
        model_uri: str | None = None,
        flavor: str | None = None,
        config: Mapping[str, Any] | None = None,
        endpoint: str | None = None,
    ) -> dict[str, Any]:
        """Releases another model as the next version of `name`; what serves goes on until all gates have said yes."""
        with mlflow_errors():
            settings = ReleaseSettings.read(config)
            if model_uri is None:
                raise InvalidInput(f"no model URI is given for {name!r}: name the model to release, -m models:/NAME/2")
            if self._serving(name) is None:
                raise NotFound(f"deployment {name!r} serves nothing: use `mlflow deployments create`")
            return self._release(name, model_uri, _publish(name, model_uri, flavor, settings), settings)

    def delete_deployment(
        self, name: str, config: Mapping[str, Any] | None = None, endpoint: str | None = None
    ) -> None:
        """Takes the model out of the engine; its files and verdicts stay. Nothing happens where it is gone already."""
        with mlflow_errors():
            if config:
                raise InvalidInput(f"a deletion takes no config ({', '.join(config)}): leave it out")
            for one in self._connection.each():
                retire(control=one, servable=name, reason="mlflow deployments delete")

    def list_deployments(self, endpoint: str | None = None) -> list[dict[str, Any]]:
        """Every model of the engine: name, the version that ordinary clients get, and how it is."""
        with mlflow_errors():
            return [_described(one) for one in self._status().servables if _is_there(one)]

    def get_deployment(self, name: str, endpoint: str | None = None) -> dict[str, Any]:
        """One model in full: versions with their states and labels, and what stands in its way."""
        with mlflow_errors():
            found = self._status(name).servable(name)
            if found is None or not _is_there(found):
                raise NotFound(f"deployment {name!r} is not there: see `mlflow deployments list`")
            versions = [
                {
                    "version": one.version,
                    "state": one.state.name,
                    "labels": list(one.labels),
                    "directory": one.path,
                    "error": one.error_message,
                }
                for one in found.versions
            ]
            return {**_described(found), "versions": versions}

    def predict(self, deployment_name: str | None = None, inputs: Any = None, endpoint: str | None = None) -> Any:
        """The serving version's answer; `inputs` is a DataFrame, a mapping from inputs to values, or a list of rows.

        The PredictionsResponse holds `predictions`, a list for one output and lists by name for several, with the
        `version` that gave them.
        """
        with mlflow_errors():
            if deployment_name is None:
                raise InvalidInput("no deployment is named: predictions are asked of one, --name NAME")
            columns = _columns(inputs)
            with Client(self._grpc()) as client:
                known = client.signatures(deployment_name)
                name = default_name(known)
                answer = client.predict(deployment_name, arrays_of(columns, known[name]), signature=name)
        outputs = {name: plain_values(array) for name, array in answer.outputs.items()}
        predictions = next(iter(outputs.values())) if len(outputs) == 1 else outputs
        return PredictionsResponse({"predictions": predictions, "version": answer.version})

    def _release(self, name: str, uri: str, directory: Path, settings: ReleaseSettings) -> dict[str, Any]:
        number = int(directory.name)
        if self._serving(name) == number:
            return self._deployed(name, number, f"{name}:{number} serves already")
        evidence = Evidence(
            settings.held_out,
            label=settings.label,
            baseline=settings.baseline,
            training=settings.training,
            log_root=settings.log_root,
            policy=settings.policy,
            entity=settings.entity,
        )
        request = Release(
            directory,
            evidence,
            _key(settings),
            self._connection,
            settings.rule if settings.canary else None,
            timeout=settings.timeout,
        )
        registered = ModelFiles(uri, settings.tracking_uri).registered
        if registered is not None:  # Its alias may be on another version by the end.
            registered = replace(registered, version=str(number))
        before = _modified(verdict_path(directory))
        try:
            released = release(request)
        finally:
            if settings.record and registered is not None and _modified(verdict_path(directory)) != before:
                record_verdict(registered, claimed_verdict(verdict_path(directory)), directory, servable=name)
        return self._deployed(name, number, released.validated.verdict.sentence)

    def _deployed(self, name: str, version: int, sentence: str) -> dict[str, Any]:
        return {"name": name, "flavor": PLATFORM, "version": version, "sentence": sentence}

    def _status(self, name: str = "") -> Any:
        with ControlClient(self._connection.each()[0]) as client:
            return client.status(name)

    def _serving(self, name: str) -> int | None:
        found = self._status(name).servable(name)
        return None if found is None else found.ordinary

    def _grpc(self) -> EngineConnection:
        """Where requests are answered: what the environment of a bare target says, else where the engine does, with the
        environment's token. An engine that listens everywhere is asked where its control port is.
        """
        host, _, port = str(self._status().grpc_address).rpartition(":")
        if host in _ANYWHERE:
            host = self._connection.addresses[0].rpartition(":")[0]
        address = f"{host}:{port}"
        named = {} if self._is_bare else {"TIDEGATE_GRPC_ADDRESS": address}
        return EngineConnection.grpc_from_environment({**self._environment, **named}, otherwise=address)


class DeploymentError(MlflowException, click.ClickException):  # type: ignore[misc]  # MLflow sets `message` too
    """An MlflowException, of which MLflow's commands print the sentence alone: they show others with a traceback."""


@contextmanager
def mlflow_errors() -> Iterator[None]:
    """Our errors as MLflow's own, with our sentence and the nearest of its codes."""
    try:
        yield
    except TidegateError as error:
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), databricks_pb2.INVALID_STATE)
        raise DeploymentError(error.message, error_code=code) from error


def _environment(target_uri: str) -> tuple[dict[str, str], bool]:
    """The variables of this process, with the target's address among them; and whether it is a bare `tidegate`, which
    takes all from there. Where it is not, an address for predictions may be another engine's."""
    scheme, _, rest = target_uri.partition(":")
    if not rest.strip("/"):
        return dict(os.environ), True
    address = target_uri if rest.startswith("//") else f"{scheme}://{rest.lstrip('/')}"
    return {**os.environ, "TIDEGATE_CONTROL": address}, False


def _publish(name: str, uri: str, flavor: str | None, settings: ReleaseSettings) -> Path:
    told = (settings.training, settings.sample, settings.label, settings.event_time)
    model = ModelFiles(uri, settings.tracking_uri, *told)
    model.check_flavor(flavor)
    return published(model, name, settings.root, settings.version).absolute()


def _key(settings: ReleaseSettings) -> Path:
    if settings.private_key is None:
        raise InvalidInput("the deployment's config has no private_key: give the validator's PEM file")
    return settings.private_key


def _is_there(status: ServableStatus) -> bool:
    return status.desired.is_anything or any(one.state is not State.END for one in status.versions)


def _described(status: ServableStatus) -> dict[str, Any]:
    serving = status.version(status.ordinary) if status.ordinary is not None else None
    return {
        "name": status.servable,
        "flavor": PLATFORM,
        "version": status.ordinary,
        "state": "NOTHING SERVES" if serving is None else serving.state.name,
        "problem": status.source_problem or status.disabled,
    }


def _columns(inputs: Any) -> dict[str, list[Any]]:
    """Values by input. InvalidInput for what has no names."""
    if hasattr(inputs, "to_dict") and hasattr(inputs, "columns"):
        return {str(name): values for name, values in inputs.to_dict(orient="list").items()}
    if isinstance(inputs, Mapping):
        return {
            str(name): list(values) if hasattr(values, "__iter__") and not isinstance(values, str) else [values]
            for name, values in inputs.items()
        }
    if isinstance(inputs, list) and inputs and all(isinstance(row, Mapping) for row in inputs):
        return {name: [row.get(name) for row in inputs] for name in inputs[0]}
    raise InvalidInput(
        f"the inputs are a {type(inputs).__name__} without names: give a DataFrame, a mapping from inputs to values, "
        "or a list of rows"
    )


def _modified(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.is_file() else None
