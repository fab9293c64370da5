"""SavedModels of every shape, asked by TensorFlow Serving's stubs and over REST; TensorFlow's answers are the truth."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.clients import rest
from tests.support.models.saved_model_zoo import ASKED
from tests.support.models.zoo_server import Zoo, columns_of, plain

from tidegate_serving.contract.messages import message
from tidegate_serving.tensor_proto import to_array


@pytest.mark.parametrize("question", list(ASKED))
def test_a_signature_answers_as_tensorflow_does(zoo: Zoo, question: str) -> None:
    asked = ASKED[question]
    found = zoo.predict(asked.model, asked.signature, **asked.inputs)
    assert not isinstance(found, dict), found
    truth = zoo.truth(question)
    assert set(found.outputs) == set(truth)
    for name in truth:
        answer = to_array(found.outputs[name])
        assert answer.shape == truth[name].shape
        np.testing.assert_array_equal(answer, truth[name])


@pytest.mark.parametrize("question", [name for name in ASKED if name not in ("no input", "unknown rank, empty")])
def test_the_same_in_columns_over_rest(zoo: Zoo, question: str) -> None:
    asked = ASKED[question]
    columns = {name: plain(value) for name, value in asked.inputs.items()}
    reply = zoo.post(asked.model, asked.signature, inputs=columns)
    assert reply.json() == {"outputs": columns_of(zoo.truth(question))}


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


def test_bytes_that_an_op_finds_damaged_are_told_as_such(zoo: Zoo) -> None:
    refused = zoo.predict("zoo", "unpacked", packed=np.array(b"no gzip", object))
    assert (refused["code"], "inflate() failed" in refused["details"]) == ("DATA_LOSS", True)


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
    found = zoo.get("/v1/models/zoo/metadata").json()
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert signatures["unranked"]["inputs"]["x"]["tensor_shape"] == {"dim": [], "unknown_rank": True}
    assert signatures["scaled"]["inputs"]["times"]["tensor_shape"] == {"dim": [], "unknown_rank": False}
    assert [dim["size"] for dim in signatures["inverse"]["inputs"]["m"]["tensor_shape"]["dim"]] == ["2", "2"]
