"""A TensorFlow Serving user's own program: the official stubs, unmodified, against an engine's gRPC endpoint.

Run as a process of its own, `python -m tests.support.clients.official_client PROGRAM ADDRESS MODEL`; it prints JSON.
TensorFlow's message modules are imported from its package without TensorFlow itself, which takes ten seconds to start.
"""

from __future__ import annotations

import importlib.machinery
import json
import subprocess
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]


def run(program: str, address: str, model: str = "m") -> Any:
    """Runs a program in a process of its own; what it printed."""
    command = [sys.executable, "-m", "tests.support.clients.official_client", program, address, model]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_code(code: str, *arguments: str) -> Any:
    """Runs Python code that has all of TensorFlow, in a process of its own; what it printed, as JSON."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def find_tensorflow() -> None:
    """Lets `tensorflow.core...` be found where TensorFlow is installed; `tensorflow` itself does not run."""
    spec = importlib.machinery.PathFinder.find_spec("tensorflow")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    stub = types.ModuleType("tensorflow")
    stub.__path__ = list(spec.submodule_search_locations)
    sys.modules["tensorflow"] = stub


class Caller:
    """The official stubs on one channel; a refusal is its code and text. `model` is whom the programs ask."""

    def __init__(self, channel: Any, model: str) -> None:
        import grpc
        from tensorflow_serving.apis import (
            model_service_pb2_grpc,
            prediction_service_pb2_grpc,
            session_service_pb2,
        )

        self.model = model
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(channel)
        self.session_run = channel.unary_unary(
            "/tensorflow.serving.SessionService/SessionRun",
            request_serializer=session_service_pb2.SessionRunRequest.SerializeToString,
            response_deserializer=session_service_pb2.SessionRunResponse.FromString,
        )
        self._error = grpc.RpcError

    def ask(self, method: Callable[..., Any], request: Any) -> Any:
        """The response, or `[code, text]`."""
        try:
            return method(request, timeout=60)
        except self._error as error:
            return [error.code().name, error.details()]


def example(features: Mapping[str, Sequence[Any]]) -> Any:
    """A `tensorflow.Example`; the first value of each feature decides on its kind."""
    from tensorflow.core.example import example_pb2, feature_pb2

    built = example_pb2.Example()
    for name, values in features.items():
        feature = built.features.feature[name]
        match values[0]:
            case str():
                feature.bytes_list.CopyFrom(feature_pb2.BytesList(value=[value.encode() for value in values]))
            case int():
                feature.int64_list.CopyFrom(feature_pb2.Int64List(value=values))
            case _:
                feature.float_list.CopyFrom(feature_pb2.FloatList(value=values))
    return built


def states(caller: Caller) -> dict[str, tuple[int, str]]:
    """State and error of each version, by its number."""
    from tensorflow_serving.apis import get_model_status_pb2

    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = caller.model
    status = caller.models.GetModelStatus(request, timeout=60)
    return {str(one.version): (one.state, one.status.error_message) for one in status.model_version_status}


def predicting(caller: Caller) -> dict[str, Any]:
    """Predict in every form, status and metadata, of a model with inputs `x` and outputs `y`."""
    import numpy as np
    from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
    from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

    def predict(label: str = "", **tensor: Any) -> Any:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = caller.model
        if label:
            request.model_spec.version_label = label
        shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=3)])
        request.inputs["x"].CopyFrom(tensor_pb2.TensorProto(tensor_shape=shape, **tensor))
        response = caller.ask(caller.prediction.Predict, request)
        if isinstance(response, list):
            return response[0]
        return {"y": list(response.outputs["y"].float_val), "version": response.model_spec.version.value}

    floats = types_pb2.DT_FLOAT
    metadata_request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    metadata_request.model_spec.name = caller.model
    signatures = get_model_metadata_pb2.SignatureDefMap()
    metadata = caller.prediction.GetModelMetadata(metadata_request, timeout=60)
    metadata.metadata["signature_def"].Unpack(signatures)
    return {
        "content": predict(dtype=floats, tensor_content=np.array([1, 2, 5], "<f4").tobytes()),
        "values": predict(dtype=floats, float_val=[1, 2, 5]),
        "filled": predict(dtype=floats, float_val=[4]),
        "none": predict(dtype=floats),
        "label": predict("canary", dtype=floats, float_val=[4]),
        "refusal": predict(dtype=types_pb2.DT_STRING, string_val=[b"a"]),
        "status": {version: state for version, (state, _) in states(caller).items()},
        "method": signatures.signature_def["serving_default"].method_name,
    }


class Inferring:
    """Classify, Regress, MultiInference and SessionRun with examples."""

    def __init__(self, caller: Caller) -> None:
        from tensorflow_serving.apis import classification_pb2, inference_pb2, regression_pb2

        self._caller = caller
        self._kinds = {
            "classify": classification_pb2.ClassificationRequest,
            "regress": regression_pb2.RegressionRequest,
        }
        self._inference = inference_pb2

    @staticmethod
    def _fill(into: Any, examples: Sequence[Mapping[str, Any]], context: Mapping[str, Any] | None) -> None:
        kind = into.example_list if context is None else into.example_list_with_context
        kind.SetInParent()
        kind.examples.extend(example(features) for features in examples)
        if context is not None:
            kind.context.CopyFrom(example(context))

    @staticmethod
    def _spec(spec: Any) -> list[Any]:
        return [spec.name, spec.version.value, spec.signature_name]

    @staticmethod
    def _result(result: Any) -> Any:
        if hasattr(result, "regressions"):
            return [one.value for one in result.regressions]
        return [[[one.label, one.score] for one in row.classes] for row in result.classifications]

    def one(
        self,
        kind: str,
        model: str,
        examples: Sequence[Mapping[str, Any]],
        *,
        signature: str = "",
        context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Classify or Regress: the result and the model's spec, or `[code, text]`."""
        request = self._kinds[kind]()
        request.model_spec.name = model
        request.model_spec.signature_name = signature
        self._fill(request.input, examples, context)
        method = getattr(self._caller.prediction, kind.capitalize())
        response = self._caller.ask(method, request)
        if isinstance(response, list):
            return response
        return {"result": self._result(response.result), "spec": self._spec(response.model_spec)}

    def several(self, tasks: Sequence[tuple[str, str, str]], examples: Sequence[Mapping[str, Any]]) -> Any:
        """MultiInference by model, signature and kind."""
        request = self._inference.MultiInferenceRequest()
        for model, signature, kind in tasks:
            task = request.tasks.add(method_name=f"tensorflow/serving/{kind}")
            task.model_spec.name = model
            task.model_spec.signature_name = signature
        self._fill(request.input, examples, None)
        response = self._caller.ask(self._caller.prediction.MultiInference, request)
        if isinstance(response, list):
            return response
        return [
            [self._spec(one.model_spec), self._result(getattr(one, one.WhichOneof("result")))]
            for one in response.results
        ]


def inferring(caller: Caller) -> dict[str, Any]:
    """Examples to model `columns`, whose features have names, and to `parser`, which gets them whole."""
    ask = Inferring(caller)
    rows: list[dict[str, Any]] = [
        {"carrier": ["UA"], "distance": [100.0], "stops": [0]},
        {"carrier": ["AA"], "distance": [50.0], "stops": [2]},
    ]
    near = {"distance": [1.0], "carrier": ["UA"]}
    both = [("parser", "", "classify"), ("parser", "value", "regress")]
    return {
        "classified": ask.one("classify", "columns", rows),
        "regressed": ask.one("regress", "columns", rows, signature="late"),
        "context": ask.one(
            "regress", "columns", [{"stops": [1]}, {"stops": [1], **near}], signature="late", context=near
        ),
        "parsed": ask.one("classify", "parser", [{"x": [2.0]}]),
        "parsed context": ask.one("regress", "parser", [{}, {"x": [4.0]}], signature="value", context={"x": [3.0]}),
        "both": ask.several(both, [{"x": [2.0]}]),
        "missing": ask.one("classify", "columns", [rows[0], {"carrier": ["UA"], "stops": [1]}]),
        "kind": ask.one("classify", "columns", [{**rows[0], "distance": ["far"]}]),
        "range": ask.one("classify", "columns", [{**rows[0], "stops": [300]}]),
        "empty": ask.one("classify", "columns", []),
        "method": ask.one("regress", "parser", [{"x": [2.0]}]),
        "signature": ask.one("regress", "parser", [{"x": [2.0]}], signature="gone"),
        "model": ask.one("classify", "nobody", [{"x": [2.0]}]),
        "raised": ask.one("classify", "parser", [{"y": [2.0]}]),
        "twice": ask.several([both[0], both[0]], [{"x": [2.0]}]),
    }


def running_sessions(caller: Caller) -> dict[str, Any]:
    """SessionRun by the names of a signature."""
    from tensorflow.core.framework import types_pb2
    from tensorflow_serving.apis import session_service_pb2

    def session(feed: str, fetch: str) -> Any:
        request = session_service_pb2.SessionRunRequest(fetch=[fetch])
        request.model_spec.name = caller.model
        fed = request.feed.add(name=feed)
        fed.tensor.dtype = types_pb2.DT_FLOAT
        fed.tensor.tensor_shape.dim.add(size=1)
        fed.tensor.float_val.append(1.0)
        response = caller.ask(caller.session_run, request)
        if isinstance(response, list):
            return response[0]
        return {one.name: list(one.tensor.float_val) for one in response.tensor}

    return {"run": session("x:0", "y:0"), "unknown": session("x", "z")}


def ragged(caller: Caller) -> dict[str, Any]:
    """Six rows of several lengths at once, of a model with a float input `x` and an output `y` of two axes."""
    from tensorflow.core.framework import types_pb2
    from tensorflow_serving.apis import predict_pb2

    def predict(values: list[float]) -> Any:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = caller.model
        tensor = request.inputs["x"]
        tensor.dtype = types_pb2.DT_FLOAT
        for size in (1, len(values)):
            tensor.tensor_shape.dim.add(size=size)
        tensor.float_val.extend(values)
        return caller.prediction.Predict.future(request, timeout=60)

    asked = [[1.0], [2.0, 3.0], [4.0, 5.0, 6.0], [7.0], [8.0, 9.0], [10.0, 11.0, 12.0]]
    waiting = [(values, predict(values)) for values in asked]
    answers = {}
    for values, future in waiting:
        found = future.result().outputs["y"]
        assert [dim.size for dim in found.tensor_shape.dim] == [1, len(found.float_val)]
        answers[f"{values[0]:g}"] = list(found.float_val)
    return answers


PROGRAMS = {
    "predicting": predicting,
    "inferring": inferring,
    "running_sessions": running_sessions,
    "ragged": ragged,
    "states": states,
}


def main(program: str, address: str, model: str) -> None:
    """Prints what the program got."""
    find_tensorflow()
    import grpc

    with grpc.insecure_channel(address) as channel:
        print(json.dumps(PROGRAMS[program](Caller(channel, model))))


if __name__ == "__main__":
    main(*sys.argv[1:])
