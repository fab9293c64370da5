"""A TensorFlow Serving user's own program that does as it is told: the official stubs in a process of its own.

`OfficialDriver` starts `python -m tests.support.clients.official_driver ADDRESS` and speaks JSON lines with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.clients.official_client import REPOSITORY, find_tensorflow


class OfficialDriver:
    """A context manager. Each call gives what the stubs gave, or {"code", "details"} of what they raised."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-m", "tests.support.clients.official_driver", address]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __call__(self, call: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
        return json.loads(self._process.stdout.readline())

    def reload(self, models: str, timeout: float = 60, metrics: tuple[str, ...] = ()) -> Any:
        """`HandleReloadConfigRequest` with a `ModelConfigList` as text."""
        text = f"config {{ model_config_list {{ {models} }} }} "
        text += " ".join(f"metric_names: '{name}'" for name in metrics)
        return self("reload", request=text, timeout=timeout)

    def predict(self, model: str, **spec: Any) -> Any:
        """The answer for x = 1 and the version that gave it; `label` or `version` where given."""
        return self("predict", model=model, **spec)

    def states(self, model: str) -> Any:
        """State names by version."""
        return self("states", model=model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def main(address: str) -> None:
    """Does what standard input says, line by line."""
    find_tensorflow()
    import grpc

    with grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)]) as channel:
        calls = _calls(channel)
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                answer = calls[asked.pop("call")](**asked)
            except grpc.RpcError as error:
                answer = {"code": error.code().name, "details": error.details()}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _calls(channel: Any) -> dict[str, Callable[..., Any]]:
    from google.protobuf import text_format
    from tensorflow.core.framework import tensor_pb2, types_pb2
    from tensorflow_serving.apis import (
        classification_pb2,
        get_model_metadata_pb2,
        get_model_status_pb2,
        inference_pb2,
        model_management_pb2,
        model_service_pb2_grpc,
        predict_pb2,
        prediction_service_pb2_grpc,
        regression_pb2,
    )

    prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    models = model_service_pb2_grpc.ModelServiceStub(channel)

    def reload(request: str, timeout: float) -> dict[str, Any]:
        message = text_format.Parse(request, model_management_pb2.ReloadConfigRequest())
        response = models.HandleReloadConfigRequest(message, timeout=timeout)
        status = response.status
        metrics = {metric.name: metric.int64_value_increase for metric in response.metric}
        return {"error_code": status.error_code, "error_message": status.error_message, "metrics": metrics}

    def states(model: str) -> dict[str, str]:
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        names = get_model_status_pb2.ModelVersionStatus.State.Name
        found = models.GetModelStatus(request, timeout=60).model_version_status
        return {str(status.version): names(status.state) for status in found}

    def predict(model: str, label: str = "", version: int = 0) -> dict[str, Any]:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        if label:
            request.model_spec.version_label = label
        if version:
            request.model_spec.version.value = version
        request.inputs["x"].CopyFrom(tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[1.0]))
        request.inputs["x"].tensor_shape.dim.add(size=1)
        response = prediction.Predict(request, timeout=60)
        output = response.outputs["y"]
        values = list(output.float_val) or memoryview(output.tensor_content).cast("f").tolist()
        return {"y": values[0], "version": response.model_spec.version.value}

    def ask(method: str, request: str) -> dict[str, str]:
        """Any method of the prediction service, with its request and answer as hexadecimal bytes."""
        modules = {"Predict": predict_pb2.PredictRequest, "MultiInference": inference_pb2.MultiInferenceRequest}
        modules["Classify"] = classification_pb2.ClassificationRequest
        modules["Regress"] = regression_pb2.RegressionRequest
        modules["GetModelMetadata"] = get_model_metadata_pb2.GetModelMetadataRequest
        message = modules[method].FromString(bytes.fromhex(request))
        return {"answer": getattr(prediction, method)(message, timeout=60).SerializeToString().hex()}

    return {"reload": reload, "states": states, "predict": predict, "ask": ask, "metadata": _metadata(prediction)}


def _metadata(prediction: Any) -> Callable[..., Any]:
    from google.protobuf.json_format import MessageToDict
    from tensorflow.core.protobuf import saved_model_pb2
    from tensorflow_serving.apis import get_model_metadata_pb2

    def as_json(definition: Any) -> Any:
        return MessageToDict(definition, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)

    def metadata(model: str, saved_model: str) -> dict[str, Any]:
        """SignatureDefs of a model as JSON: those that its answer has, and those of a `saved_model.pb`."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = model
        found = get_model_metadata_pb2.SignatureDefMap()
        assert prediction.GetModelMetadata(request, timeout=60).metadata["signature_def"].Unpack(found)
        with Path(saved_model).open("rb") as file:
            written = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0].signature_def
        sides = {"answered": found.signature_def, "written": written}
        return {side: {name: as_json(one) for name, one in signatures.items()} for side, signatures in sides.items()}

    return metadata


if __name__ == "__main__":
    main(*sys.argv[1:])
