"""A model by MLflow's URI, published into a repository: from the registry under its number, else under a free one."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate_operators.steps import Publication, publish
from tidegate_operators.steps.mlflow_registry import (
    PLATFORM,
    RegisteredVersion,
    publish_registered,
    published_before,
    registered_number,
    without_credentials,
)
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.repository import version_directory, versions
from tidegate_serving.contract.servable import ServableId

_REGISTERED = re.compile(r"models:/+(?P<name>[^/@]+)(?:/(?P<version>[^/@]+)|@(?P<alias>[^/@]+))\Z")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What to publish: MLflow's URI of a model, the server that knows it, and what is told of its data."""

    uri: str
    tracking_uri: str | None = None
    training: str | None = None
    sample: str | None = None
    label: str | None = None
    event_time: str | None = None

    @property
    def registered(self) -> RegisteredVersion | None:
        """The registered version that the URI names; None for a URI of another kind."""
        found = _REGISTERED.match(self.uri)
        if found is None:
            return None
        version = found["version"] or f"@{found['alias']}"
        if not version.startswith("@") and not version.isdigit():
            raise InvalidInput(f"{self.uri} has no number: name a version's number, or models:/{found['name']}@ALIAS")
        return RegisteredVersion(self.server, found["name"], version)

    @property
    def server(self) -> str:
        """The tracking server."""
        import mlflow

        return self.tracking_uri or str(mlflow.get_tracking_uri())

    def check_flavor(self, flavor: str | None) -> None:
        """InvalidInput where a flavor is asked for that the model does not have; it is called as its MLmodel says."""
        if flavor is None:
            return
        import mlflow

        if self.tracking_uri:
            mlflow.set_tracking_uri(self.tracking_uri)
        flavors = sorted(mlflow.models.get_model_info(self.uri).flavors)
        if flavor not in flavors:
            raise InvalidInput(f"{self.uri} has no flavor {flavor!r} (it has {', '.join(flavors)}): leave it out")


def published(model: ModelFiles, name: str, repository: Path, version: int | None) -> Path:
    """The version's directory. One that was published from the same registered version is taken as it lies there, so
    that a deployment that was refused or killed can be tried again.

    InvalidInput for a `version` where the registry has one; else as `publish` and `publish_registered`.
    """
    registered = model.registered
    told: dict[str, Any] = {name: getattr(model, name) for name in ("training", "sample", "label", "event_time")}
    if registered is None:
        return _downloaded(model, name, repository, version, told)
    if version is not None:
        raise InvalidInput(f"version is {version}, and {model.uri} has a number in the registry: leave version out")
    number = registered_number(registered)
    directory = version_directory(repository, ServableId(name, number))
    numbered = replace(registered, version=str(number))
    if published_before(numbered, directory):
        return directory
    return publish_registered(numbered, repository=repository, servable=name, **told).directory


def _downloaded(model: ModelFiles, name: str, repository: Path, version: int | None, told: dict[str, Any]) -> Path:
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    number = max(versions(repository, name), default=0) + 1 if version is None else version
    with tempfile.TemporaryDirectory(prefix="tidegate-mlflow-") as folder:
        try:
            files = Path(download_artifacts(model.uri, dst_path=folder, tracking_uri=model.tracking_uri))
        except (MlflowException, OSError) as error:
            raise NotFound(
                f"the files of {model.uri} cannot be downloaded: {without_credentials(str(error))}"
            ) from error
        metadata = {"mlflow.uri": without_credentials(model.server), "mlflow.model": model.uri}
        return publish(
            Publication(
                files=files,
                servable=name,
                version=number,
                platform=PLATFORM,
                repository=repository,
                metadata=metadata,
                **told,
            )
        ).directory
