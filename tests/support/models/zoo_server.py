"""A model server over the zoo of SavedModels, asked by TensorFlow Serving's stubs and by plain HTTP.

Tests of `tests/serving/tensorflow_serving` share one (see its `conftest.py`) and compare its answers with
TensorFlow's own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.clients import rest
from tests.support.clients.official_driver import OfficialDriver
from tests.support.engine.model_server import ModelServerProcess
from tests.support.models.saved_model_zoo import ERROR, Array, file_of

from tidegate_serving.contract.messages import message
from tidegate_serving.tensor_proto import fill

MODELS = ("zoo", "session", "kinds", "estimator", "keras")


class Zoo:
    """A model server with all models, the stubs, and plain HTTP."""

    def __init__(self, server: ModelServerProcess, stubs: OfficialDriver, models: Path) -> None:
        self.server, self.stubs, self._models = server, stubs, models

    def truth(self, question: str) -> dict[str, Array]:
        """TensorFlow's own answer: outputs by name."""
        with np.load(file_of(self._models, question), allow_pickle=True) as found:
            return dict(found)

    def saved_model(self, model: str) -> Path:
        """The file that TensorFlow wrote."""
        return self._models / model / "1" / "saved_model.pb"

    def ask(self, method: str, request: Any, answer: str) -> Any:
        """What the stubs gave: a message, or `{"code", "details"}`."""
        found = self.stubs("ask", method=method, request=request.SerializeToString().hex())
        if "answer" not in found:
            return found
        return message(f"tensorflow.serving.{answer}").FromString(bytes.fromhex(found["answer"]))

    def predict(self, model: str, signature: str, **inputs: Array) -> Any:
        """Predict by gRPC."""
        request = message("tensorflow.serving.PredictRequest")()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        for name, value in inputs.items():
            fill(request.inputs[name], value)
        return self.ask("Predict", request, "PredictResponse")

    def infer(self, method: str, model: str, signature: str, examples: list[bytes]) -> Any:
        """Classify or Regress by gRPC; the result."""
        words = {"Classify": "Classification", "Regress": "Regression"}
        request = message(f"tensorflow.serving.{words[method]}Request")()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        for example in examples:
            request.input.example_list.examples.add().ParseFromString(example)
        return self.ask(method, request, f"{words[method]}Response").result

    def get(self, path: str) -> rest.Reply:
        """GET by REST."""
        return rest.call(self.server.addresses["rest"], "GET", path)

    def post(self, model: str, signature: str, verb: str = "predict", **body: Any) -> rest.Reply:
        """POST by REST."""
        body["signature_name"] = signature
        return rest.call(self.server.addresses["rest"], "POST", f"/v1/models/{model}:{verb}", body)


def plain(value: Array, as_base64: bool = True) -> Any:
    """An array as JSON has it, strings as base64 objects or as text."""

    def one(item: Any) -> Any:
        if isinstance(item, list):
            return [one(part) for part in item]
        if isinstance(item, bytes):
            return {"b64": base64.b64encode(item).decode()} if as_base64 else item.decode()
        return item

    return one(_shortest(value).tolist())


def _shortest(value: Array) -> Array:
    """Floats of fewer bits as the shortest decimals that mean them."""
    return value.astype(str).astype("f8") if value.dtype in ("f2", "f4") else value


def columns_of(truth: dict[str, Array]) -> Any:
    """What REST answers in columns."""
    wanted = {name: plain(value, name.endswith("_bytes")) for name, value in truth.items()}
    return wanted if len(wanted) > 1 else next(iter(wanted.values()))


def failed(truth: dict[str, Array]) -> tuple[int, str] | None:
    """The code and the text that TensorFlow raised, without its list of nodes; None where it answered."""
    if ERROR not in truth:
        return None
    code, text = truth[ERROR].tolist()
    return int(code), str(text).removeprefix("Graph execution error:").strip().partition("\n")[0]


@contextmanager
def zoo_server(folder: Path, models: Path) -> Iterator[Zoo]:
    """One model server, on a UNIX socket and for REST."""
    configs = "".join(
        f"config {{ name: '{name}' base_path: '{models / name}' model_platform: 'tensorflow' }} " for name in MODELS
    )
    (folder / "models.txt").write_text(f"model_config_list {{ {configs} }}")
    flags = (f"--model_config_file={folder / 'models.txt'}", f"--grpc_socket_path={folder / 'grpc.sock'}")
    with (
        ModelServerProcess(folder / "server", *flags) as server,
        OfficialDriver(f"unix:{folder / 'grpc.sock'}") as stubs,
    ):
        yield Zoo(server, stubs, models)
