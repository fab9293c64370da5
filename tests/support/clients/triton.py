"""What Triton's clients send: tensors, and requests over one `ModelStreamInfer` call."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from typing import Any

import numpy as np
import tritonclient.grpc as over_grpc
from tritonclient.utils import np_to_triton_dtype


def tensor(library: Any, name: str, array: np.ndarray[Any, Any], **options: Any) -> Any:
    """An input with this array's values, for `tritonclient.grpc` or `tritonclient.http`."""
    found = library.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    found.set_data_from_numpy(array, **options)
    return found


class TritonStream:
    """One `ModelStreamInfer` call: requests go out with `ask`, and `next` reads what comes, and raises errors."""

    def __init__(self, address: str, **options: Any) -> None:
        self._came: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._client = over_grpc.InferenceServerClient(address)
        self._client.start_stream(lambda result, error: self._came.put((result, error)), **options)

    def ask(self, model: str, arrays: Mapping[str, np.ndarray[Any, Any]], **options: Any) -> None:
        inputs = [tensor(over_grpc, name, array) for name, array in arrays.items()]
        self._client.async_stream_infer(model, inputs, **options)

    def next(self) -> Any:
        result, failed = self._came.get(timeout=60)
        if failed is not None:
            raise failed
        return result

    def hang_up(self) -> None:
        self._client.stop_stream(cancel_requests=True)

    def close(self) -> None:
        self._client.stop_stream()
        self._client.close()
