"""TensorFlow Serving's call that replaces the list of models, as any client can make it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

from tidegate_serving.contract.messages import message

RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"


def ask_reload(address: str, request: bytes) -> tuple[str, str]:
    """The gRPC code of such a request, and its words."""
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(RELOAD, request_serializer=None, response_deserializer=None)
        try:
            call(request, timeout=60)
        except grpc.RpcError as error:
            status: Any = error
            return status.code().name, status.details()
    return "OK", ""


def reload_models(address: str, models: Mapping[str, Path]) -> tuple[str, str]:
    """Serves exactly these models from their base paths; the gRPC code, and its words."""
    request = message("tensorflow.serving.ReloadConfigRequest")()
    request.config.model_config_list.SetInParent()
    for name, path in models.items():
        request.config.model_config_list.config.add(name=name, base_path=str(path), model_platform="python")
    return ask_reload(address, request.SerializeToString())
