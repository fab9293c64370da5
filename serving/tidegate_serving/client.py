"""A client of the engine's gRPC endpoint, with numpy arrays in and out and TensorFlow Serving's protocol underneath.

Programs, the command line and the operators ask models here; any TensorFlow Serving server answers it as well, but for
streams, which travel by the Open Inference Protocol.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import TracebackType
from typing import Any, Self

import grpc
import numpy.typing as npt

from tidegate_serving.channels import Metadata, open_channel, token_metadata
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.infer_stream import ERRORS_END, METHOD, PredictionStream, infer_request
from tidegate_serving.prediction import Prediction
from tidegate_serving.tensor_proto import dtype_of, fill, to_array
from tidegate_serving.wire_errors import from_rpc

REQUEST_ID_KEY = "x-request-id"
_PREDICTION = "/tensorflow.serving.PredictionService/"
_MODEL = "/tensorflow.serving.ModelService/"


class Client:
    """Asks models at one gRPC endpoint: `host:port`, an EngineConnection where TLS or a token is needed on the way, or
    what TIDEGATE_* variables say. A context manager; safe to share between threads.

    Every call raises the contract's errors: NotFound for an unknown model or version, InvalidInput for an unknown label
    or inputs that do not fit the signature, DeadlinePassed after `timeout` seconds, Unavailable when nobody answers.
    """

    def __init__(self, connection: str | EngineConnection | None = None) -> None:
        found = EngineConnection.grpc_from_environment() if connection is None else EngineConnection.of(connection)
        self._connection = found
        self._metadata = token_metadata(found)
        self._channel = open_channel(found)

    def predict(
        self,
        model: str,
        inputs: Mapping[str, npt.ArrayLike],
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str = SERVING_DEFAULT,
        request_id: str | None = None,
        timeout: float = 10.0,
    ) -> Prediction:
        """Runs the model on inputs by name, batch on axis 0; strings may be `str` or `bytes`.

        Without version and label the label `stable` answers if there is one, else the newest version. `request_id`
        goes into the inference log and decides about sampling and shadowing; the engine makes one where it is None.
        """
        request = message("tensorflow.serving.PredictRequest")()
        _fill_spec(request.model_spec, model, version, label)
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            fill(request.inputs[name], _as_array(value))
        answer = self._call(_PREDICTION + "Predict", request, "PredictResponse", timeout, _id_metadata(request_id))
        outputs = {name: to_array(proto) for name, proto in answer.outputs.items()}
        return Prediction(outputs, answer.model_spec.name, answer.model_spec.version.value)

    def stream(
        self,
        model: str,
        inputs: Mapping[str, npt.ArrayLike],
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str = SERVING_DEFAULT,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Generator[Prediction]:
        """As `predict`, for a signature that streams: its messages, as the model makes them; else its one answer.

        Closing it, or dropping it, has the model stop. `timeout` in seconds is for all of it; without one the engine's
        own, for each message. Errors come with the first message or between messages; an error ends the stream.
        """
        arrays = {name: _as_array(value) for name, value in inputs.items()}
        request = infer_request(model, label if version is None else version, signature, arrays)
        call = self._channel.unary_stream(
            METHOD,
            request_serializer=type(request).SerializeToString,
            response_deserializer=message("inference.ModelStreamInferResponse").FromString,
        )
        metadata = (*self._metadata, ERRORS_END, *_id_metadata(request_id))
        return PredictionStream(call(request, timeout=timeout, metadata=metadata), self._connection)

    def model_status(self, model: str, *, timeout: float = 10.0) -> list[StateChange]:
        """The latest state of each version that the engine knows of, newest version first."""
        request = message("tensorflow.serving.GetModelStatusRequest")()
        _fill_spec(request.model_spec, model, None, None)
        answer = self._call(_MODEL + "GetModelStatus", request, "GetModelStatusResponse", timeout)
        return [
            StateChange(
                ServableId(model, status.version),
                State(status.state),
                str(status.status.error_code) if status.status.error_code else "",
                status.status.error_message,
                0,
            )
            for status in answer.model_version_status
        ]

    def signatures(
        self, model: str, *, version: int | None = None, label: str | None = None, timeout: float = 10.0
    ) -> dict[str, Signature]:
        """The ways to call a version, by signature name. What no request of this client could call is left out, such as
        a SavedModel's signatures of sparse tensors.
        """
        request = message("tensorflow.serving.GetModelMetadataRequest")(metadata_field=["signature_def"])
        _fill_spec(request.model_spec, model, version, label)
        answer = self._call(_PREDICTION + "GetModelMetadata", request, "GetModelMetadataResponse", timeout)
        found = message("tensorflow.serving.SignatureDefMap").FromString(answer.metadata["signature_def"].value)
        told = {name: _signature(definition) for name, definition in found.signature_def.items()}
        return {name: signature for name, signature in told.items() if signature is not None}

    def close(self) -> None:
        """Closes the connection; calls under way fail."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, request: Any, answer: str, timeout: float, metadata: Metadata = ()) -> Any:
        decode = message(f"tensorflow.serving.{answer}").FromString
        call = self._channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=decode
        )
        try:
            return call(request, timeout=timeout, metadata=(*self._metadata, *metadata))
        except grpc.RpcError as error:
            raise from_rpc(error, self._connection) from error


def _id_metadata(request_id: str | None) -> Metadata:
    return () if request_id is None else ((REQUEST_ID_KEY, request_id),)


def _fill_spec(spec: Any, model: str, version: int | None, label: str | None) -> None:
    spec.name = model
    if version is not None:
        spec.version.value = version
    elif label is not None:
        spec.version_label = label


def _as_array(value: npt.ArrayLike) -> Array:
    import numpy as np

    return np.asarray(value)


def _signature(definition: Any) -> Signature | None:
    """None where a tensor is not dense, or of a type that is not served."""
    infos = (*definition.inputs.values(), *definition.outputs.values())
    if any(info.WhichOneof("encoding") != "name" for info in infos):
        return None
    try:
        inputs, outputs = _specs(definition.inputs), _specs(definition.outputs)
    except Unsupported:
        return None
    rows = inputs and all(spec.shape[:1] == (-1,) for spec in (*inputs, *outputs))
    return Signature(inputs, outputs, definition.method_name, FirstAxis.BATCH if rows else FirstAxis.FREE)


def _specs(tensors: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name,
            dtype_of(info.dtype),
            tuple(dimension.size for dimension in info.tensor_shape.dim),
            unknown_rank=info.tensor_shape.unknown_rank,
        )
        for name, info in sorted(tensors.items())
    )
