"""A `ModelServerConfig`, from a file or from a reload request, as models of an engine's config.

What TensorFlow Serving refuses is refused in its words.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tidegate_serving.config.files import base_path
from tidegate_serving.config.model import BatchingConfig, ModelConfig
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput
from tidegate_serving.contract.servable import check_name
from tidegate_serving.sources.file_system.version_folder import VersionFolder
from tidegate_serving.sources.file_system.version_policy import parse_version_policy

TENSORFLOW = "tensorflow"
_log = logging.getLogger(__name__)


def models_of(config: Any, batching: BatchingConfig | None = None) -> dict[str, ModelConfig]:
    """Models by name. Each gets `batching`, where it is given.

    Raises InvalidInput for a name that is listed twice, a relative path, a model without platform, a bad share.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise InvalidInput("the config has no model_config_list, which is the only kind that is served: list models")
    models: dict[str, ModelConfig] = {}
    for entry in config.model_config_list.config:
        name = check_name(entry.name)
        if name in models:
            raise InvalidInput(f"Illegal to list model {name} multiple times in config list")
        models[name] = _model(name, entry, batching)
    return models


def check_platforms(old: Mapping[str, ModelConfig], new: Mapping[str, ModelConfig]) -> None:
    """InvalidInput where a model that stays is to change its platform."""
    for name in old.keys() & new.keys():
        before, after = old[name].platform or TENSORFLOW, new[name].platform or TENSORFLOW
        if before != after:
            raise InvalidInput(
                f"Illegal to change a model's platform. For model {name} platform was {before} and new platform "
                f"requested is {after}"
            )


def check_labels(models: Mapping[str, ModelConfig]) -> None:
    """FailedPrecondition for a label whose version neither lies there nor is asked for.

    TensorFlow Serving wants the version to be available already, so that one cannot load a version and label it in one
    step; here the label waits for a version that is about to load.
    """
    for name, model in models.items():
        for label, version in model.labels.items():
            if version not in _to_be_served(name, model):
                raise FailedPrecondition(
                    f"Request to assign label to version {version} of model {name}, which is not currently available "
                    f"for inference: label {label!r} needs a version that lies under {model.path} and that "
                    f"model_version_policy asks for ({model.versions})"
                )


def _to_be_served(name: str, model: ModelConfig) -> list[int]:
    if model.path is None or model.versions is None:
        return []
    try:
        present = VersionFolder(base_path(name, model.path)).versions()
    except OSError:
        return []
    return parse_version_policy(model.versions).choose(present, lambda number: number, lambda number: True)


def _model(name: str, entry: Any, batching: BatchingConfig | None) -> ModelConfig:
    base_path(name, entry.base_path)
    return ModelConfig(
        path=entry.base_path,
        platform=_platform(name, entry),
        versions=_versions(name, entry.model_version_policy),
        labels=dict(entry.version_labels),
        batching=batching,
        log_sampling_rate=_sampling_rate(name, entry),
    )


def _platform(name: str, entry: Any) -> str:
    kind = entry.DESCRIPTOR.fields_by_name["model_type"].enum_type.values_by_number[entry.model_type].name
    if kind == "MODEL_TYPE_UNSPECIFIED":
        if not entry.model_platform:
            raise InvalidInput(
                "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
                f'ModelServerConfig::model_platform, model name is {name}: write model_platform: "tensorflow"'
            )
        return str(entry.model_platform)
    if entry.model_platform:
        raise InvalidInput(
            "Illegal setting both ModelServerConfig::model_type (deprecated) and ModelServerConfig::model_platform, "
            f"model name is {name}: leave out model_type"
        )
    if kind != "TENSORFLOW":
        raise InvalidInput(f"ModelServerConfig::model_type choice {kind} not supported: use model_platform")
    return TENSORFLOW


def _versions(name: str, policy: Any) -> str:
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return "all"
    if choice == "specific":
        numbers = sorted(set(policy.specific.versions))
        if not numbers:
            _log.warning("No specific versions requested for servable %s.", name)
        return f"specific:{','.join(map(str, numbers))}" if numbers else "none"
    return f"latest:{max(1, policy.latest.num_versions)}"


def _sampling_rate(name: str, entry: Any) -> float | None:
    if not entry.HasField("logging_config"):
        return None
    logging_config = entry.logging_config
    collector = logging_config.log_collector_config.type
    if collector:
        _log.warning("model %s: log collector %r is not used: requests are logged to log_path", name, collector)
    return float(logging_config.sampling_config.sampling_rate)
