"""Versions loaded in the test's own process, as an engine would load them, admitted without a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.models.versions import fill

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.platforms.loader import Answer, LoadedVersion, ask
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.tensor_checks import check_inputs, check_outputs
from tidegate_serving.platforms.unpublished import describe_unpublished
from tidegate_serving.platforms.version_loader import VersionLoader

ID = ServableId("m", 1)


def admit(manifest: Manifest, digest: str) -> None:
    """Everybody."""


def unpublished_loader(directory: Path, platform: str, **options: Any) -> VersionLoader:
    path = VersionReference(ID.version, directory, "", platform, unpublished=True)
    return VersionLoader(ID, path, installed_platforms(PlatformOptions(**options)), admit)


def load_unpublished(directory: Path, platform: str, **options: Any) -> LoadedVersion:
    return unpublished_loader(directory, platform, **options).load()


def load_files(directory: Path, platform: str, files: Mapping[str, str | bytes], **options: Any) -> LoadedVersion:
    """A directory that nobody published, filled and loaded."""
    fill(directory, files)
    return load_unpublished(directory, platform, **options)


def load_published(directory: Path, **options: Any) -> LoadedVersion:
    manifest, digest = read_manifest(directory)
    path = VersionReference(manifest.id.version, directory, digest, manifest.platform)
    return VersionLoader(manifest.id, path, installed_platforms(PlatformOptions(**options)), admit).load()


def discover(directory: Path, platform: str, **options: Any) -> ModelDescription:
    registry = installed_platforms(PlatformOptions(**options))
    return registry.discover(directory, describe_unpublished(ID, platform, directory))


def answered(loaded: LoadedVersion, inputs: Mapping[str, Any], signature: str = SERVING_DEFAULT) -> Answer:
    """The answer with its outputs as the engine would pass them on; inputs and outputs are held to the signature."""
    spec = loaded.manifest.signatures[signature]
    rows = check_inputs(spec, inputs)
    answer = ask(loaded.servable, signature, inputs)
    return Answer(check_outputs(loaded.manifest.id, spec, rows, answer.outputs), answer.errors)


def outputs(loaded: LoadedVersion, inputs: Mapping[str, Any], signature: str = SERVING_DEFAULT) -> dict[str, Any]:
    answer = answered(loaded, inputs, signature)
    assert not answer.errors
    return dict(answer.outputs)
