"""`ModelService.HandleReloadConfigRequest`: a client replaces the list of models, as with TensorFlow Serving.

The config says whether clients may call it. Base paths must lie under the engine's roots, unless unpublished
directories are served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from tidegate_serving.config.engine_config import EngineConfig, ModelConfig
from tidegate_serving.config.files import base_path
from tidegate_serving.connection import is_loopback
from tidegate_serving.contract.errors import InvalidInput, PermissionRefused
from tidegate_serving.contract.messages import message, parsed
from tidegate_serving.contract.repository import check_path
from tidegate_serving.tensorflow_serving.batching_file import with_own_batching
from tidegate_serving.tensorflow_serving.model_list import models_of

Replace = Callable[[Mapping[str, ModelConfig]], None]
_log = logging.getLogger(__name__)


class ReloadCall:
    """Answers one request. `counters` gives those of the data plane by sample name."""

    def __init__(
        self, config: Callable[[], EngineConfig], replace: Replace, counters: Callable[[], Mapping[str, float]]
    ) -> None:
        self._config = config
        self._replace = replace
        self._counters = counters

    def __call__(self, request: bytes) -> bytes:
        """A `ReloadConfigResponse` with status OK. Raises the contract's errors; nothing has changed then."""
        asked = parsed("tensorflow.serving.ReloadConfigRequest", request, "the request")
        config = self._config()
        _check_allowed(config)
        if asked.config.WhichOneof("config") != "model_config_list":
            raise InvalidInput(
                "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently "
                "supported"
            )
        before = self._values(asked.metric_names)
        models = models_of(asked.config)
        _check_paths(config, models)
        if config.own_batching_files:
            models = with_own_batching(models)
        _log.info("a client replaces the list of models: %s", ", ".join(sorted(models)) or "none")
        self._replace(models)
        answer = message("tensorflow.serving.ReloadConfigResponse")()
        answer.status.error_code = 0
        for name, value in self._values(asked.metric_names).items():
            answer.metric.add(name=name, int64_value_increase=value - before[name])
        data: bytes = answer.SerializeToString()
        return data

    def _values(self, names: Any) -> dict[str, int]:
        counters = self._counters() if names else {}
        return {
            name: int(sum(value for sample, value in counters.items() if sample.partition("{")[0] == name))
            for name in names
        }


def _check_allowed(config: EngineConfig) -> None:
    allowed = config.allow_reload_requests
    if not (is_loopback(config.grpc_address) if allowed is None else allowed):
        raise PermissionRefused(
            "HandleReloadConfigRequest is not allowed here, as it has no authentication: set "
            "allow_reload_requests, or change the config file and send SIGHUP"
        )


def _check_paths(config: EngineConfig, models: Mapping[str, ModelConfig]) -> None:
    """Unpublished directories may lie anywhere, as with TensorFlow Serving; others only where pushes may."""
    if config.allow_unpublished:
        return
    roots = [root.resolve() for root in (*config.roots, *([config.repository] if config.repository else []))]
    for name, model in models.items():
        path = check_path(base_path(name, model.path or "")).resolve()
        if not any(path.is_relative_to(root) for root in roots):
            raise PermissionRefused(
                f"base path {model.path} of model {name!r} lies outside the engine's roots "
                f"({', '.join(map(str, roots)) or 'none'}): publish under one of them"
            )
