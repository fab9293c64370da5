"""A streaming answer over gRPC: the request of a `ModelStreamInfer` call, and its messages as they come.

The client asks here; tensors travel as the Open Inference Protocol's raw contents.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import grpc
import numpy as np

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import InvalidInput, Unsupported, error_from
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.tensors import Array, decode, dtype_name, element_count, encode
from tidegate_serving.prediction import Prediction
from tidegate_serving.wire_errors import from_rpc

METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"
ERRORS_END = ("triton_grpc_error", "true")
"""The metadata by which a call asks that an error ends it with its status, as in Triton."""
_UNKNOWN = 2
_DATATYPES = {
    "bool": "BOOL",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "string": "BYTES",
}
_DTYPES = {datatype: dtype for dtype, datatype in _DATATYPES.items()}


def infer_request(model: str, version: int | str | None, signature: str, inputs: Mapping[str, Array]) -> Any:
    """A `ModelInferRequest` for a version by number or label, None for the one that answers ordinary requests.

    InvalidInput, naming the dtype, for an array that cannot be served; Unsupported for complex numbers.
    """
    request = message("inference.ModelInferRequest")(model_name=model)
    request.model_version = "" if version is None else str(version)
    request.parameters["signature_name"].string_param = signature
    for name, array in inputs.items():
        dtype = dtype_name(array)
        if dtype not in _DATATYPES:
            raise Unsupported(f"streams carry no {dtype}: use one of {', '.join(_DATATYPES)} for input {name!r}")
        datatype = _DATATYPES[dtype]
        request.inputs.add(name=name, datatype=datatype, shape=array.shape)
        request.raw_input_contents.append(_strings(array) if datatype == "BYTES" else encode(array))
    return request


class PredictionStream(Generator[Prediction]):
    """The messages of one call. Closing or dropping it cancels the call, whether or not a message was read.

    Raises the contract's errors where they happen: InvalidInput for a message that is none.
    """

    def __init__(self, call: Any, connection: EngineConnection) -> None:
        self._call = call
        self._connection = connection
        self._open = True

    def send(self, value: None) -> Prediction:
        """The next message; StopIteration once there are no more."""
        if not self._open:
            raise StopIteration
        self._open = False
        try:
            answer = next(self._call)
        except grpc.RpcError as error:
            raise from_rpc(error, self._connection) from error
        if answer.error_message:  # a server that does not know ERRORS_END; it sends no code
            self._call.cancel()
            raise error_from(_UNKNOWN, answer.error_message)
        try:
            prediction = _prediction(answer.infer_response)
        except Exception:
            self._call.cancel()
            raise
        self._open = True
        return prediction

    def throw(self, *error: Any) -> Prediction:
        """Ends the call and raises the error."""
        self._open = False
        self._call.cancel()
        return super().throw(*error)


def _prediction(answer: Any) -> Prediction:
    if len(answer.raw_output_contents) != len(answer.outputs):
        raise Unsupported(f"the server sends the outputs of {answer.model_name!r} as typed contents: send them raw")
    pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
    outputs = {output.name: _array(output, data) for output, data in pairs}
    if not answer.model_version.isascii() or not answer.model_version.isdecimal():
        raise InvalidInput(f"version {answer.model_version!r} of {answer.model_name!r} in the answer is no number")
    return Prediction(outputs, answer.model_name, int(answer.model_version))


def _array(output: Any, data: bytes) -> Array:
    shape = tuple(output.shape)
    if output.datatype not in _DTYPES:
        raise Unsupported(f"output {output.name!r} has datatype {output.datatype!r}: the protocol has {_NAMES}")
    if output.datatype != "BYTES":
        return decode(data, _DTYPES[output.datatype], shape)
    found = list(_split(output.name, data))
    if len(found) != element_count(shape):
        raise InvalidInput(f"output {output.name!r} has {len(found)} strings, but shape {list(shape)}")
    items = np.empty(len(found), dtype=object)
    items[:] = found
    return items.reshape(shape)


def _strings(array: Array) -> bytes:
    items = (item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist())
    return b"".join(struct.pack("<I", len(item)) + item for item in items)


def _split(name: str, data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if end > len(data) or at + 4 > len(data):
            raise InvalidInput(f"output {name!r} has a string that ends too early")
        yield data[at + 4 : end]
        at = end


_NAMES = ", ".join(_DTYPES)
