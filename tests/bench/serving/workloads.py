"""The models that engine and peers are asked, and each request as the bytes that every protocol needs.

`null` answers 0.5 x + 2 to 4 floats, `image` the same to 150,528 (600 kB); `regression` is scikit-learn's logistic
regression over 64 floats, the same estimator and the same Python in every server that runs Python.
"""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from tests.support.models.versions import write_manifest

from tidegate_serving.contract.manifest import Manifest, describe_files
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.tensor_proto import to_array

PREDICT = "/tensorflow.serving.PredictionService/Predict"
INFER = "/inference.GRPCInferenceService/ModelInfer"
ESTIMATOR = "estimator.joblib"
_CALLS = {
    "linear": "x * np.float32(0.5) + np.float32(2.0)",
    "estimator": "ESTIMATOR.predict_proba(x)[:, 1:].astype(np.float32)",
}
_TIDEGATE = '''"""A model of the benchmark."""

from pathlib import Path

import joblib
import numpy as np

PATH = Path(__file__).with_name("estimator.joblib")
ESTIMATOR = joblib.load(PATH) if PATH.exists() else None


class Model:
    def predict(self, inputs):
        x = inputs["x"]
        return {"y": CALL}
'''


@dataclass(frozen=True, slots=True)
class Workload:
    """One model: its name, how many floats a row has, whether a logistic regression answers, and the rows of 1."""

    name: str
    width: int
    regression: bool = False

    @property
    def x(self) -> Array:
        """The row that is asked, float32 of shape (1, width)."""
        if self.width == len(_FEW):
            return np.array([_FEW], np.float32)
        return np.random.default_rng(self.width).normal(size=(1, self.width)).astype(np.float32)

    @property
    def call(self) -> str:
        """What a model in Python computes of an array `x` of rows."""
        return _CALLS["estimator" if self.regression else "linear"]

    def answer(self) -> Array:
        """What every server has to answer, float32 of shape (1, outputs)."""
        if self.regression:
            return np.asarray(estimator().predict_proba(self.x)[:, 1:], np.float32)
        return self.x * np.float32(0.5) + np.float32(2.0)

    # What is sent

    def predict_bytes(self) -> bytes:
        """TensorFlow Serving's PredictRequest."""
        request = message("tensorflow.serving.PredictRequest")()
        request.model_spec.name = self.name
        tensor = request.inputs["x"]
        tensor.dtype = 1
        for size in self.x.shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = self.x.tobytes()
        return bytes(request.SerializeToString())

    def infer_bytes(self) -> bytes:
        """Open Inference's ModelInferRequest, as Triton takes it."""
        request = message("inference.ModelInferRequest")(model_name=self.name, raw_input_contents=[self.x.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=self.x.shape)
        return bytes(request.SerializeToString())

    @property
    def rest_path(self) -> str:
        """TensorFlow Serving's address."""
        return f"/v1/models/{self.name}:predict"

    def rest_body(self) -> bytes:
        """TensorFlow Serving's row form."""
        return json.dumps({"instances": self.x.tolist()}, separators=(",", ":")).encode()

    @property
    def infer_path(self) -> str:
        """Open Inference's address."""
        return f"/v2/models/{self.name}/infer"

    def infer_body(self) -> bytes:
        """Open Inference's request in JSON."""
        tensor = {"name": "x", "datatype": "FP32", "shape": list(self.x.shape), "data": self.x.reshape(-1).tolist()}
        return json.dumps({"inputs": [tensor]}, separators=(",", ":")).encode()

    # Whether the answers are right: a fast wrong answer is no measurement

    def check_predict(self, address: str) -> None:
        """Raises unless a server with TensorFlow Serving's gRPC answers right."""
        response = message("tensorflow.serving.PredictResponse")()
        response.ParseFromString(_call(address, PREDICT, self.predict_bytes()))
        self._same(address, to_array(response.outputs["y"]))

    def check_infer(self, address: str) -> None:
        """Raises unless a server with Open Inference's gRPC answers right."""
        response = message("inference.ModelInferResponse").FromString(_call(address, INFER, self.infer_bytes()))
        self._same(address, np.frombuffer(response.raw_output_contents[0], np.float32))

    def check_rest(self, address: str, path: str) -> None:
        """Raises unless a server with JSON answers right: rows of a number or a list each, in `predictions` or bare."""
        found = _post(f"http://{address}{path}", self.rest_body())
        self._same(address, np.array(found["predictions"] if isinstance(found, dict) else found, np.float32))

    def check_infer_rest(self, address: str) -> None:
        """Raises unless a server with Open Inference's REST answers right."""
        found = _post(f"http://{address}{self.infer_path}", self.infer_body())
        self._same(address, np.array(found["outputs"][0]["data"], np.float32))

    def _same(self, where: str, found: Array) -> None:
        if not np.allclose(found.reshape(-1), self.answer().reshape(-1), rtol=1e-4):
            raise RuntimeError(
                f"{where} answered {found.reshape(-1)[:4]} for {self.name}: {self.answer()[0][:4]} is right"
            )


_FEW = (1.0, 2.0, 5.0, 0.25)
NULL = Workload("null", len(_FEW))
REGRESSION = Workload("regression", 64, regression=True)
IMAGE = Workload("image", 224 * 224 * 3)
WORKLOADS = (NULL, REGRESSION, IMAGE)


def estimator() -> LogisticRegression:
    """Fitted on a thousand made-up rows of 64 floats, the same every time."""
    draw = np.random.default_rng(64)
    x = draw.normal(size=(1000, REGRESSION.width)).astype(np.float32)
    return LogisticRegression().fit(x, x @ draw.normal(size=REGRESSION.width) + draw.normal(size=1000) > 0)


def publish(workload: Workload, repository: Path) -> None:
    """Version 1 for Tidegate's Python platform."""
    directory = version_directory(repository, ServableId(workload.name, 1))
    directory.mkdir(parents=True)
    (directory / "model.py").write_text(_TIDEGATE.replace("CALL", workload.call))
    if workload.regression:
        joblib.dump(estimator(), directory / ESTIMATOR)
    x = TensorSpec("x", "float32", (-1, workload.width))
    y = TensorSpec("y", "float32", (-1, workload.answer().shape[1]))
    manifest = Manifest(
        id=ServableId(workload.name, 1),
        platform="python",
        signatures={SERVING_DEFAULT: Signature((x,), (y,))},
        files=describe_files(directory),
        created_at="2013-01-01T00:00:00Z",
        example={"x": workload.x[0].tolist()},
        metadata={"python.file": "model.py", "python.class": "Model"},
    )
    write_manifest(manifest, directory)


def _post(url: str, body: bytes) -> Any:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def _call(address: str, method: str, body: bytes) -> bytes:
    most = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(address, most) as channel:
        call: Any = channel.unary_unary(method)
        return bytes(call(body, timeout=30))
