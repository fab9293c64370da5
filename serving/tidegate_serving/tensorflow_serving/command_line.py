"""TensorFlow Serving's command line as an engine's config.

The model server runs an engine with it, and reads the list of models again whenever its file changed.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.layers import ENVIRONMENT_PREFIX
from tidegate_serving.config.model import BatchingConfig, ModelConfig
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.messages import message
from tidegate_serving.tensorflow_serving.batching_file import batching_of, with_own_batching
from tidegate_serving.tensorflow_serving.flags import Flags, parse_flags
from tidegate_serving.tensorflow_serving.model_list import TENSORFLOW, models_of
from tidegate_serving.tensorflow_serving.platform_file import PlatformChoice, from_file, from_flags
from tidegate_serving.tensorflow_serving.text_files import read_text_file

ALL_INTERFACES = "0.0.0.0"
LARGEST_MESSAGE = 2**31 - 1
PROMETHEUS_PATH = "/monitoring/prometheus/metrics"
_LEAST_PAUSE = 0.001
_FOR_EVER = -1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a command line means. `config` reads its files anew at each call."""

    flags: Flags
    env: Mapping[str, str]

    @property
    def wants_version(self) -> bool:
        """Whether it only asks which version this is."""
        return bool(self.flags["version"])

    @property
    def poll_seconds(self) -> float:
        """How often the file with the list of models is read again; 0 for once."""
        return max(0.0, float(self.flags["model_config_file_poll_wait_seconds"])) if self.model_file else 0.0

    @property
    def model_file(self) -> Path | None:
        """The file with the list of models, if there is one."""
        return Path(self.flags["model_config_file"]) if self.flags["model_config_file"] else None

    def config(self) -> EngineConfig:
        """The whole config; `TIDEGATE_*` variables count for what flags on the command line do not say.

        Raises the contract's errors with flag, file and line for whatever cannot be used.
        """
        flags = self.flags
        choice = self._platform()
        values: dict[str, Any] = {
            **self._addresses(),
            "allow_unverified": True,
            "allow_unpublished": True,
            "allow_reload_requests": True,
            "follow_stable": False,
            "own_batching_files": self._own_batching,
            "labels_may_wait": flags["allow_version_labels_for_unavailable_models"],
            "max_message_bytes": LARGEST_MESSAGE,
            "request_timeout_seconds": flags["rest_api_timeout_in_ms"] / 1000,
            "load_threads": max(1, flags["num_load_threads"]),
            "unload_threads": max(1, flags["num_unload_threads"]),
            "poll_seconds": max(0, flags["file_system_poll_wait_seconds"]),
            **self._retries(),
            "platforms": {TENSORFLOW: dict(choice.settings)},
            "warm_up": choice.warm_up,
            "warm_up_iterations": choice.warm_up_iterations,
            "warm_up_batch_sizes": choice.warm_up_batch_sizes,
            **self._monitoring(),
        }
        batching = self._batching(choice)
        if batching is not None:
            values["batching"] = dataclasses.asdict(batching)
        known = {key: value for key, value in self.env.items() if key not in _SET_BY_FLAGS}
        config = EngineConfig.load(None, known, {key: value for key, value in values.items() if self._counts(key)})
        models = self.models()
        origin = f"--model_config_file={self.model_file}" if self.model_file else "--model_base_path"
        origins = {**config.origins, **{f"models.{name}": origin for name in models}}
        return dataclasses.replace(config, models=models, origins=origins)

    def models(self) -> dict[str, ModelConfig]:
        """The list of models as its file, or the flags for a single one, say now."""
        flags = self.flags
        if self.model_file is not None:
            config = read_text_file(self.model_file, "tensorflow.serving.ModelServerConfig", "model_config_file")
        elif not flags["model_base_path"]:
            raise InvalidInput(
                "Both model_base_path and model_config_file are empty! Name the folder with a model's versions, such "
                "as --model_base_path=/models/flights, or a file that lists models"
            )
        else:
            config = message("tensorflow.serving.ModelServerConfig")()
            config.model_config_list.config.add(
                name=flags["model_name"], base_path=flags["model_base_path"], model_platform=TENSORFLOW
            )
        models = models_of(config)
        return with_own_batching(models) if self._own_batching else models

    @property
    def _own_batching(self) -> bool:
        return bool(self.flags["enable_batching"] and self.flags["enable_per_model_batching_parameters"])

    def _counts(self, key: str) -> bool:
        """Whether a value counts more than a variable: a flag's default does not, only one that was given."""
        variable = f"{ENVIRONMENT_PREFIX}{key.upper()}"
        return variable not in self.env.keys() - _SET_BY_FLAGS or not self.flags.given.isdisjoint(
            _FLAGS_OF.get(key, ())
        )

    def _addresses(self) -> dict[str, Any]:
        names = ("port", "rest_api_port", "grpc_socket_path", "ssl_config_file")
        port, rest, socket, tls = (self.flags[name] for name in names)
        if port == 0 and not socket:
            raise InvalidInput("At least one of --port and --grpc_socket_path must be set: leave out --port for 8500")
        if rest != 0 and rest == port:
            _log.error("--rest_api_port cannot be same as --port: REST is not served, use a different port for it")
            rest = 0
        return {
            "grpc_address": f"{ALL_INTERFACES}:{port}" if port else "",
            "rest_address": f"{ALL_INTERFACES}:{rest}" if rest else "",
            "rest_cors": self.flags["rest_api_enable_cors_support"],
            "tensor_content": self.flags["enable_serialization_as_tensor_content"],
            "control_address": self.env.get("TIDEGATE_CONTROL_ADDRESS", "127.0.0.1:0"),
            "grpc_socket_path": Path(socket) if socket else None,
            "grpc_ssl_config": Path(tls) if tls else None,
        }

    def _retries(self) -> dict[str, float]:
        """Its pauses do not grow. Its number has no sign where it is used, so that a negative one has no end."""
        pause = max(_LEAST_PAUSE, self.flags["load_retry_interval_micros"] / 1e6)
        retries = max(_FOR_EVER, self.flags["max_num_load_retries"])
        return {"retry_first_seconds": pause, "retry_most_seconds": pause, "load_retries": retries}

    def _platform(self) -> PlatformChoice:
        path = self.flags["platform_config_file"]
        return from_file(Path(path)) if path else from_flags(self.flags)

    def _batching(self, choice: PlatformChoice) -> BatchingConfig | None:
        flags = self.flags
        path = flags["batching_parameters_file"]
        if flags["platform_config_file"]:
            return choice.batching
        if not flags["enable_batching"]:
            if path:
                raise InvalidInput("batching_parameters_file is set without setting enable_batching to true: set both")
            return None
        kind = "tensorflow.serving.BatchingParameters"
        parameters = read_text_file(Path(path), kind, "batching_parameters_file") if path else message(kind)()
        return batching_of(parameters, path or "--enable_batching")

    def _monitoring(self) -> dict[str, Any]:
        path = self.flags["monitoring_config_file"]
        if not path:
            return {}
        config = read_text_file(Path(path), "tensorflow.serving.MonitoringConfig", "monitoring_config_file")
        prometheus = config.prometheus_config
        if not prometheus.enable:
            return {}
        if prometheus.path and not prometheus.path.startswith("/"):
            raise InvalidInput(f"{path}: prometheus_config.path is {prometheus.path!r}: begin it with a slash")
        return {"metrics_path": prometheus.path or PROMETHEUS_PATH}


_FLAGS_OF = {
    "labels_may_wait": ("allow_version_labels_for_unavailable_models",),
    "request_timeout_seconds": ("rest_api_timeout_in_ms",),
    "load_threads": ("num_load_threads",),
    "unload_threads": ("num_unload_threads",),
    "poll_seconds": ("file_system_poll_wait_seconds",),
    "retry_first_seconds": ("load_retry_interval_micros",),
    "retry_most_seconds": ("load_retry_interval_micros",),
    "load_retries": ("max_num_load_retries",),
    "warm_up": ("enable_model_warmup", "platform_config_file"),
    "warm_up_iterations": ("num_request_iterations_for_warmup", "platform_config_file"),
    "warm_up_batch_sizes": ("platform_config_file",),
    "rest_cors": ("rest_api_enable_cors_support",),
    "tensor_content": ("enable_serialization_as_tensor_content",),
    "grpc_socket_path": ("grpc_socket_path",),
    "grpc_ssl_config": ("ssl_config_file",),
    "metrics_path": ("monitoring_config_file",),
    "own_batching_files": ("enable_per_model_batching_parameters",),
}
"""Keys that a variable can set, and the flags that say them."""
_SET_BY_FLAGS = frozenset({"TIDEGATE_GRPC_ADDRESS", "TIDEGATE_REST_ADDRESS", "TIDEGATE_REPOSITORY"})


def parse_command_line(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> CommandLine:
    """Arguments without the program's name. Raises InvalidInput or Unsupported with the flag and the cure."""
    return CommandLine(parse_flags(arguments), os.environ if env is None else env)
