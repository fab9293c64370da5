"""Brings a version into the model repository: from the registry, or it lies there already."""

from __future__ import annotations

from pathlib import Path

from tidegate_operators.steps.mlflow_registry import (
    RegisteredVersion,
    publish_registered,
    published_before,
)
from tidegate_pipelines.hub.config import HubConfig, ReleaseConfig
from tidegate_pipelines.hub.store import ReleaseRow
from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId

MLFLOW = "mlflow"
"""The source of releases that the registry asked for."""


def fetch(config: HubConfig, settings: ReleaseConfig, release: ReleaseRow) -> tuple[Path, str]:
    """The version's directory and its manifest's digest.

    What the registry asked for comes from there, and is taken as it lies in the repository where that is what was
    published from the same registered version. Everything else lies in the repository, or is looked for in the
    registry. NotFound where neither has it; else as `publish_registered`.
    """
    root = settings.repository or config.repository
    directory = version_directory(root, ServableId(release.model, release.version))
    registered = RegisteredVersion(config.mlflow.address, release.model, str(release.version))
    known = bool(config.mlflow.address)
    lies_there = release.source != MLFLOW and (directory / FILE_NAME).is_file()
    if lies_there or (known and published_before(registered, directory)):
        return directory, read_manifest(directory)[1]
    if not known:
        raise NotFound(
            f"{directory} is missing and the hub has no registry: publish the version, or name MLflow's address"
        )
    root.mkdir(parents=True, exist_ok=True)
    publish_registered(
        registered,
        repository=root,
        training=settings.training,
        sample=settings.sample,
        label=settings.label,
        event_time=settings.event_time,
    )
    return directory, read_manifest(directory)[1]
