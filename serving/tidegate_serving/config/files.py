"""What the file system source is to watch, as an engine's config says it.

The assembly of the sources asks at the start and at each reload.
"""

from __future__ import annotations

from pathlib import Path

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.model import ModelConfig
from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.servable import check_name
from tidegate_serving.sources.file_system.source import FileSystemOptions
from tidegate_serving.sources.file_system.version_policy import parse_version_policy
from tidegate_serving.sources.file_system.watched import WatchOptions

_LOCAL = "file://"


def file_system_options(config: EngineConfig) -> FileSystemOptions:
    """Raises InvalidInput for a policy or path that cannot be used, Unsupported for one on an object store."""
    return FileSystemOptions(
        root=None if config.repository is None else config.repository.absolute(),
        paths={
            check_name(name): base_path(name, model.path)
            for name, model in config.models.items()
            if model.path is not None
        },
        watch=_watch(config, ModelConfig()),
        overrides={name: _watch(config, model) for name, model in config.models.items()},
    )


def base_path(name: str, text: str) -> Path:
    """A model's base path."""
    local = text.removeprefix(_LOCAL)
    if "://" in local:
        raise Unsupported(f"base path {text} of model {name!r} is on an object store: name a local folder")
    if not Path(local).is_absolute():
        raise InvalidInput(
            f"Expected model {name} to have an absolute path or URI; got base_path()={text}: write it from the root, "
            f"such as {Path('/models') / name}"
        )
    return Path(local)


def _watch(config: EngineConfig, model: ModelConfig) -> WatchOptions:
    always = model.versions_always_present
    return WatchOptions(
        policy=parse_version_policy(config.versions if model.versions is None else model.versions),
        poll_seconds=config.poll_seconds if model.poll_seconds is None else model.poll_seconds,
        unpublished=config.allow_unpublished,
        platform=model.platform,
        quiet_seconds=config.quiet_seconds,
        always_present=config.versions_always_present if always is None else always,
    )
