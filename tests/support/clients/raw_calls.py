"""gRPC calls that are sent now and answered later, for tests that need to know what an engine has read."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest

from tidegate_serving.contract.messages import message
from tidegate_serving.tensor_proto import fill


def predict_later(channel: grpc.Channel, value: float, model: str = "m", timeout: float = 60) -> Any:
    """Sends a request to a model now; its `result()` is the answer."""
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = model
    fill(request.inputs["x"], np.array([value], dtype=np.float32))
    call = channel.unary_unary(
        "/tensorflow.serving.PredictionService/Predict",
        request_serializer=type(request).SerializeToString,
        response_deserializer=message("tensorflow.serving.PredictResponse").FromString,
    )
    return call.future(request, timeout=timeout)


def wait_until_read(channel: grpc.Channel) -> None:
    """Returns once the engine has read everything that was sent on this connection before."""
    call = channel.unary_unary(
        "/tensorflow.serving.ModelService/GetModelStatus", request_serializer=bytes, response_deserializer=bytes
    )
    with pytest.raises(grpc.RpcError, match="ModelSpec"):
        call(b"", timeout=60)
