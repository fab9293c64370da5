"""TensorFlow's own settings, from flags or from a `PlatformConfigMap`, as settings of an engine's tensorflow platform.

Settings that no key of the platform stands for have no effect, and are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from tidegate_serving.config.engine_config import Setting
from tidegate_serving.config.model import BatchingConfig
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.messages import parsed
from tidegate_serving.tensorflow_serving.batching_file import batching_of
from tidegate_serving.tensorflow_serving.flags import Flags
from tidegate_serving.tensorflow_serving.text_files import read_text_file

TENSORFLOW = "tensorflow"
_ADAPTER = "tensorflow.serving.SavedModelBundleSourceAdapterConfig"
_NO_EFFECT = (
    "session_target",
    "experimental_fixed_input_tensors",
    "session_run_load_threadpool_index",
    "prefer_tflite_model",
    "mixed_precision",
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlatformChoice:
    """The content of a platform config: settings by key, batching where it says so, and warm-up."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    batching: BatchingConfig | None = None
    warm_up: bool = True
    warm_up_iterations: int = 1
    warm_up_batch_sizes: tuple[int, ...] = ()


def from_flags(flags: Flags) -> PlatformChoice:
    """As TensorFlow Serving's flags say. InvalidInput where they contradict each other."""
    both = flags["tensorflow_session_parallelism"]
    intra, inter = flags["tensorflow_intra_op_parallelism"], flags["tensorflow_inter_op_parallelism"]
    if both > 0 and (intra > 0 and inter > 0):
        raise InvalidInput(
            "Either configure tensorflow_session_parallelism or (tensorflow_intra_op_parallelism, "
            "tensorflow_inter_op_parallelism) separately. You cannot configure all."
        )
    settings: dict[str, Setting] = {"tags": flags["saved_model_tags"]}
    if flags["tensorflow_session_config_file"]:
        path = Path(flags["tensorflow_session_config_file"])
        config = read_text_file(path, "tensorflow.ConfigProto", "tensorflow_session_config_file")
        settings["session_config"] = text_format.MessageToString(config)
    if intra > 0 or inter > 0:
        settings.update(intra_op_threads=max(0, intra), inter_op_threads=max(0, inter))
    elif both > 0:
        settings.update(intra_op_threads=both, inter_op_threads=both)
    if flags["per_process_gpu_memory_fraction"] > 0:
        settings["memory_fraction"] = flags["per_process_gpu_memory_fraction"]
    return PlatformChoice(
        settings,
        warm_up=flags["enable_model_warmup"],
        warm_up_iterations=max(1, flags["num_request_iterations_for_warmup"]),
    )


def from_file(path: Path) -> PlatformChoice:
    """As a PlatformConfigMap says. InvalidInput for a platform or an adapter that is not supported."""
    config = read_text_file(path, "tensorflow.serving.PlatformConfigMap", "platform_config_file")
    choice = PlatformChoice()
    for platform, entry in config.platform_configs.items():
        if platform != TENSORFLOW:
            raise InvalidInput(
                f"{path} configures platform {platform!r}: only {TENSORFLOW!r} is configured in this file, others need "
                "no entry"
            )
        choice = _choice(entry.source_adapter_config, path)
    return choice


def _choice(adapter: Any, path: Path) -> PlatformChoice:
    kind = adapter.type_url.rpartition("/")[2]
    if kind != _ADAPTER:
        raise InvalidInput(f"{path}: source_adapter_config is of type {kind or 'none'!r}: use [.../{_ADAPTER}]")
    legacy = parsed(_ADAPTER, adapter.value, f"{path}: source_adapter_config").legacy_config
    for key in _NO_EFFECT:
        if any(known.name == key for known, _ in legacy.ListFields()):
            _log.warning("%s: %s has no effect", path, key)
    settings: dict[str, Setting] = {"tags": ",".join(legacy.saved_model_tags) or "serve"}
    if legacy.HasField("session_config"):
        settings["session_config"] = text_format.MessageToString(legacy.session_config)
    options = legacy.model_warmup_options
    return PlatformChoice(
        settings,
        batching_of(legacy.batching_parameters, str(path)) if legacy.HasField("batching_parameters") else None,
        legacy.enable_model_warmup,
        max(1, options.num_request_iterations.value),
        tuple(legacy.batching_parameters.allowed_batch_sizes) if options.enable_all_batch_sizes_warmup else (),
    )
