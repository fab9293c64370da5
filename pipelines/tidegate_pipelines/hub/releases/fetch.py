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
    directory = _directory(config, settings, release)
    if release.source != MLFLOW and (directory / FILE_NAME).is_file():
        return directory, read_manifest(directory)[1]
    if is_of_registry(config, settings, release):
        return directory, read_manifest(directory)[1]
    if not config.mlflow.address:
        raise NotFound(
            f"{directory} is missing and the hub has no registry: publish the version, or name MLflow's address"
        )
    root = directory.parent.parent
    root.mkdir(parents=True, exist_ok=True)
    publish_registered(
        _registered(config, release),
        repository=root,
        training=settings.training,
        sample=settings.sample,
        label=settings.label,
        event_time=settings.event_time,
    )
    return directory, read_manifest(directory)[1]


def is_of_registry(config: HubConfig, settings: ReleaseConfig, release: ReleaseRow) -> bool:
    """Whether the version in the repository is the one that the registry has under its number now; False without a
    registry. Raises as `publish_registered`."""
    if not config.mlflow.address:
        return False
    return published_before(_registered(config, release), _directory(config, settings, release))


def _registered(config: HubConfig, release: ReleaseRow) -> RegisteredVersion:
    return RegisteredVersion(config.mlflow.address, release.model, str(release.version))


def _directory(config: HubConfig, settings: ReleaseConfig, release: ReleaseRow) -> Path:
    root = settings.repository or config.repository
    return version_directory(root, ServableId(release.model, release.version))
