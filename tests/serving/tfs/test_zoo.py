"""SavedModels of every shape, asked by TensorFlow Serving's stubs and over REST; TensorFlow's answers are the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import rest
from tests.support.model_server_process import ModelServerProcess
from tests.support.official_driver import OfficialDriver
from tests.support.saved_model_zoo import ASKED, Array, file_of

from tidegate_serving.contract.messages import message
from tidegate_serving.tensor_proto import fill, to_array


class Zoo:
    """A model server with both models, the stubs, and plain HTTP."""

    def __init__(self, server: ModelServerProcess, stubs: OfficialDriver) -> None:
        self.server, self.stubs = server, stubs

    def ask(self, method: str, request: Any, answer: str) -> Any:
        found = self.stubs("ask", method=method, request=request.SerializeToString().hex())
        if "answer" not in found:
            return found
        return message(f"tensorflow.serving.{answer}").FromString(bytes.fromhex(found["answer"]))

    def predict(self, model: str, signature: str, **inputs: Array) -> Any:
        request = message("tensorflow.serving.PredictRequest")()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        for name, value in inputs.items():
            fill(request.inputs[name], value)
        return self.ask("Predict", request, "PredictResponse")

    def post(self, model: str, signature: str, verb: str = "predict", **body: Any) -> rest.Reply:
        body["signature_name"] = signature
        return rest.call(self.server.addresses["rest"], "POST", f"/v1/models/{model}:{verb}", body)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory, saved_models: Path) -> Iterator[Zoo]:
    folder = tmp_path_factory.mktemp("zoo")
    configs = "".join(
        f"config {{ name: '{name}' base_path: '{saved_models / name}' model_platform: 'tensorflow' }} "
        for name in ("zoo", "session")
    )
    (folder / "models.txt").write_text(f"model_config_list {{ {configs} }}")
    flags = (f"--model_config_file={folder / 'models.txt'}", f"--grpc_socket_path={folder / 'grpc.sock'}")
    with (
        ModelServerProcess(folder / "server", *flags) as server,
        OfficialDriver(f"unix:{folder / 'grpc.sock'}") as stubs,
    ):
        yield Zoo(server, stubs)


@pytest.mark.parametrize("question", list(ASKED))
def test_a_signature_answers_as_tensorflow_does(zoo: Zoo, saved_models: Path, question: str) -> None:
    asked = ASKED[question]
    found = zoo.predict(asked.model, asked.signature, **asked.inputs)
    assert not isinstance(found, dict), found
    truth = np.load(file_of(saved_models, question), allow_pickle=True)
    assert set(found.outputs) == set(truth)
    for name in truth:
        answer = to_array(found.outputs[name])
        assert answer.shape == truth[name].shape
        np.testing.assert_array_equal(answer, truth[name])


@pytest.mark.parametrize("question", [name for name in ASKED if name not in ("no input", "unknown rank, empty")])
def test_the_same_in_columns_over_rest(zoo: Zoo, saved_models: Path, question: str) -> None:
    asked = ASKED[question]
    columns = {name: _plain(value) for name, value in asked.inputs.items()}
    reply = zoo.post(asked.model, asked.signature, inputs=columns)
    truth = np.load(file_of(saved_models, question), allow_pickle=True)
    wanted = {name: _plain(truth[name], name.endswith("_bytes")) for name in truth}
    assert reply.json() == {"outputs": wanted if len(wanted) > 1 else next(iter(wanted.values()))}


def _plain(value: Array, base64: bool = True) -> Any:
    import base64 as codec

    def one(item: Any) -> Any:
        if isinstance(item, list):
            return [one(part) for part in item]
        if isinstance(item, bytes):
            return {"b64": codec.b64encode(item).decode()} if base64 else item.decode()
        return item

    return one(value.tolist())


def test_rows_over_rest_are_stacked(zoo: Zoo) -> None:
    assert zoo.post("zoo", "running", instances=[1.0, 2.0, 4.0]).json() == {"predictions": [1.0, 3.0, 7.0]}
    assert zoo.post("zoo", "scores", instances=[{"q": [1, 0, 0], "d": [2, 0, 0]}] * 2).json() == {
        "predictions": [[2.0, 2.0], [2.0, 2.0]]
    }
    mixed = zoo.post("zoo", "unranked", instances=[[1.0], [2.0]])
    assert (mixed.status, mixed.json()) == (400, {"error": "Tensor name: rank has no shape information "})
    other = zoo.post("zoo", "splits", instances=["a b", "c"])
    text = "Tensor name: values has inconsistent batch size: 3 expecting: 3"
    assert other.status == 200 or text not in other.json()["error"]


def test_answers_without_rows_have_tensorflow_servings_words_in_rows(zoo: Zoo) -> None:
    reply = zoo.post("zoo", "determinant", instances=[[2.0, 1.0], [1.0, 3.0]])
    assert (reply.status, reply.json()) == (400, {"error": "Tensor name: y has no shape information "})
    uneven = zoo.post("zoo", "splits", instances=["a b", ""])
    assert uneven.status == 400
    assert "has inconsistent batch size: " in uneven.json()["error"]


def test_a_scalar_cannot_come_in_rows(zoo: Zoo) -> None:
    reply = zoo.post("zoo", "scaled", instances=[{"x": [1, 2, 3], "times": 2}])
    assert reply.status == 400
    assert "input 'times' has shape [1], but the signature expects []" in reply.json()["error"]


def test_a_rank_that_the_signature_does_not_have_is_refused(zoo: Zoo) -> None:
    refused = zoo.predict("zoo", "scaled", x=np.ones((2, 3), "f4"), times=np.ones((1,), "f4"))
    assert refused == {
        "code": "INVALID_ARGUMENT",
        "details": "input 'times' has shape [1], but the signature expects []",
    }
    missing = zoo.predict("zoo", "scaled", x=np.ones((2, 3), "f4"))
    assert missing["details"] == (
        "input size does not match signature: 1!=2 len({x}) != len({times,x}). Sent extra: {}. Missing but required: "
        "{times}."
    )


def test_what_an_op_says_of_a_whole_request_reaches_the_client(zoo: Zoo) -> None:
    refused = zoo.predict("zoo", "top", x=np.ones((2, 3), "f4"), k=np.array(9, "i4"))
    assert (refused["code"], "input must have at least k columns" in refused["details"]) == ("INVALID_ARGUMENT", True)


def test_examples_of_a_placeholder_without_shape(zoo: Zoo) -> None:
    reply = zoo.post("session", "regress_x", "regress", examples=[{"x": 1.0}, {"x": 4.0}])
    assert reply.json() == {"results": [2.5, 4.0]}
    reply = zoo.post("session", "classify_x", "classify", examples=[{"x": 1.0}])
    assert reply.json() == {"results": [[["half", 2.5]]]}
    request = message("tensorflow.serving.MultiInferenceRequest")()
    for signature, method in (("regress_x", "regress"), ("classify_x", "classify")):
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = "session", signature
    example = request.input.example_list.examples.add()
    example.features.feature["x"].float_list.value.append(2.0)
    results = zoo.ask("MultiInference", request, "MultiInferenceResponse").results
    assert results[0].regression_result.regressions[0].value == 3.0
    assert results[1].classification_result.classifications[0].classes[0].score == 3.0


def test_numbers_that_json_does_not_have(zoo: Zoo) -> None:
    body = b'{"signature_name":"doubled","instances":[[NaN,Infinity],[-Infinity,1e-3]]}'
    reply = rest.call(zoo.server.addresses["rest"], "POST", "/v1/models/zoo:predict", json.loads(body))
    assert reply.body.decode() == '{"predictions":[[NaN,Infinity],[-Infinity,0.002]]}'


def test_metadata_says_what_has_no_rank(zoo: Zoo) -> None:
    found = rest.call(zoo.server.addresses["rest"], "GET", "/v1/models/zoo/metadata").json()
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert signatures["unranked"]["inputs"]["x"]["tensor_shape"] == {"dim": [], "unknown_rank": True}
    assert signatures["scaled"]["inputs"]["times"]["tensor_shape"] == {"dim": [], "unknown_rank": False}
    assert [dim["size"] for dim in signatures["inverse"]["inputs"]["m"]["tensor_shape"]["dim"]] == ["2", "2"]
    assert "waves" not in signatures
