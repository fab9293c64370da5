"""One `ModelStreamInfer` call by Triton's client."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from typing import Any

import numpy as np
import tritonclient.grpc as over_grpc

KINDS = {"i": "INT64", "f": "FP32", "O": "BYTES"}


class TritonStream:
    """A call to an address; requests are sent with `ask`, and what comes is read with `next`, which raises errors."""

    def __init__(self, address: str, **options: Any) -> None:
        self._came: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._client = over_grpc.InferenceServerClient(address)
        self._client.start_stream(lambda result, error: self._came.put((result, error)), **options)

    def ask(self, model: str, arrays: Mapping[str, np.ndarray[Any, Any]], **options: Any) -> None:
        inputs = []
        for name, array in arrays.items():
            inputs.append(over_grpc.InferInput(name, list(array.shape), KINDS[array.dtype.kind]))
            inputs[-1].set_data_from_numpy(array)
        self._client.async_stream_infer(model, inputs, **options)

    def next(self) -> Any:
        result, failed = self._came.get(timeout=30)
        if failed is not None:
            raise failed
        return result

    def hang_up(self) -> None:
        self._client.stop_stream(cancel_requests=True)

    def close(self) -> None:
        self._client.stop_stream()
        self._client.close()
