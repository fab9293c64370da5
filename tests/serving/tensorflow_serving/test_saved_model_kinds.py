"""Exports as TensorFlow's users have them, asked by the stubs and over REST; TensorFlow's own answers are the truth."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.support.models.saved_model_kinds import ASKED, ODD, examples
from tests.support.models.zoo_server import MODELS, Zoo, columns_of, failed, plain

from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.platforms.tensorflow.signatures import definitions_as_served
from tidegate_serving.tensor_proto import to_array

BETWEEN = np.array([[1.501, -2.251]], "f4")
"""Floats, of which bfloat16 holds the nearest: 1.5 and -2.25."""
CODES = {3: ("INVALID_ARGUMENT", 400), 5: ("NOT_FOUND", 404)}


@pytest.mark.parametrize("question", list(ASKED))
def test_a_signature_answers_as_tensorflow_does(zoo: Zoo, question: str) -> None:
    asked, truth = ASKED[question], zoo.truth(question)
    found = zoo.predict(asked.model, asked.signature, **asked.inputs)
    if error := failed(truth):
        assert found["code"] == CODES[error[0]][0]
        assert error[1] in found["details"]
        return
    assert not isinstance(found, dict), found
    assert set(found.outputs) == set(truth)
    for name in truth:
        answer = to_array(found.outputs[name])
        assert (answer.dtype, answer.shape) == (truth[name].dtype, truth[name].shape)
        np.testing.assert_array_equal(answer, truth[name])


@pytest.mark.parametrize("question", [name for name in ASKED if name != "large"])
def test_the_same_in_columns_over_rest(zoo: Zoo, question: str) -> None:
    asked, truth = ASKED[question], zoo.truth(question)
    reply = zoo.post(asked.model, asked.signature, inputs={name: plain(value) for name, value in asked.inputs.items()})
    if error := failed(truth):
        assert reply.status == CODES[error[0]][1]
        assert error[1] in reply.json()["error"]
        return
    assert reply.status == 200, reply.body
    np.testing.assert_equal(reply.json(), {"outputs": columns_of(truth)})


def test_an_answer_of_several_megabytes_comes_whole_over_rest(zoo: Zoo) -> None:
    rows = zoo.post("kinds", "large", instances=[1.5, 2.5, 3.5]).json()["predictions"]
    assert [(len(row), row[0], row[-1]) for row in rows] == [(400_000, x, x) for x in (1.5, 2.5, 3.5)]


def test_numbers_and_empty_lists_in_rows(zoo: Zoo) -> None:
    def rows(signature: str, *instances: Any) -> Any:
        return zoo.post("kinds", signature, instances=list(instances)).json()["predictions"]

    assert rows("whole", [2**63 - 1, -(2**63)], [2**53 + 1, 0]) == [[2**63 - 1, -(2**63)], [2**53 + 1, 0]]
    assert rows("unsigned", [2**64 - 1]) == [[2**64 - 1]]
    assert rows("floats", [], []) == [[], []]
    assert rows("varied", [], []) == [{"sum": [0.0, 0.0, 0.0], "same": []}] * 2
    assert rows("texts", "", {"b64": "/wA="}) == [
        {"text_bytes": {"b64": ""}, "length": 0},
        {"text_bytes": {"b64": "/wA="}, "length": 2},
    ]
    assert all(math.isnan(value) for value in rows("floats", [math.nan, math.nan])[0])


def test_names_are_any_text_in_rows(zoo: Zoo) -> None:
    reply = zoo.post("kinds", ODD, instances=[{"prénom et/nom": 1.0}, {"prénom et/nom": 2.0}])
    assert reply.json() == {"predictions": [{"y": 2.0, 'z 潮"': 3.0}, {"y": 3.0, 'z 潮"': 4.0}]}
    assert zoo.post("kinds", ODD, instances=[1.0]).json() == {"predictions": [{"y": 2.0, 'z 潮"': 3.0}]}


def test_a_default_stands_in_over_rest(zoo: Zoo) -> None:
    rows = zoo.post("kinds", "defaulted", instances=[{"x": 1.0}, {"x": 2.0}])
    assert rows.json() == {"predictions": [3.0, 6.0]}
    lacking = zoo.post("kinds", "defaulted", inputs={"times": 2.0})
    assert (lacking.status, lacking.json()) == (400, {"error": "Missing named input: x in 'inputs' object."})
    mixed = zoo.post("kinds", "defaulted", instances=[{"x": 1.0}, {"x": 2.0, "times": 2.0}])
    assert (mixed.status, "keys must be equal to: times,x" in mixed.json()["error"]) == (400, True)


def test_a_model_keeps_its_state_from_call_to_call(zoo: Zoo) -> None:
    def count(by: int) -> int:
        return int(to_array(zoo.predict("kinds", "counted", by=np.array([by], "i8")).outputs["count"]))

    before = count(0)
    assert [count(2), count(3)] == [before + 2, before + 5]


def test_requests_of_different_inner_sizes_at_once_get_their_own(zoo: Zoo) -> None:
    def ask(size: int) -> bool:
        x = np.full((2, size, 3), size, "f4")
        wanted = [{"sum": [float(size * size)] * 3, "same": [[size + 1.0] * 3] * size}] * 2
        return bool(zoo.post("kinds", "varied", instances=x.tolist()).json() == {"predictions": wanted})

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, [0, 1, 2, 3, 4, 5, 6, 7] * 6))


def test_features_are_parsed_by_the_graph(zoo: Zoo) -> None:
    logits = zoo.truth("parsed by regress")["outputs"][:, 0].tolist()
    found = zoo.infer("Regress", "estimator", "regression", examples())
    assert [one.value for one in found.regressions] == logits
    scores = zoo.truth("parsed by classify")["scores"].tolist()
    found = zoo.infer("Classify", "estimator", "", examples())
    classes = [[(one.label, one.score) for one in row.classes] for row in found.classifications]
    assert classes == [[("low", low), ("high", high)] for low, high in scores]


def test_features_of_a_wrong_kind_are_refused_in_tensorflows_words(zoo: Zoo) -> None:
    reply = zoo.post("estimator", "regression", "regress", examples=[{"age": "old"}])
    assert (reply.status, "age" in reply.json()["error"]) == (400, True)


def test_features_over_rest(zoo: Zoo) -> None:
    logits = zoo.truth("parsed by regress")["outputs"][:, 0].tolist()
    rows = [{"age": 30.0, "tags": ["a", "tide", "gate"], "ids": [1, 2]}, {"age": 2.5, "city": "Kiel"}, {}]
    assert zoo.post("estimator", "regression", "regress", examples=rows).json() == {"results": logits}
    labels = zoo.post("estimator", "serving_default", "classify", examples=rows).json()["results"]
    assert labels == [[["low", value], ["high", -value]] for value in logits]
    shared = zoo.post("estimator", "regression", "regress", context={"age": 4.0}, examples=[{}, {"ids": [7]}])
    assert shared.json() == {"results": [2.0, 9.0]}


def test_bfloat16_is_float32_to_clients_who_may_send_it_too(zoo: Zoo) -> None:
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name, request.model_spec.signature_name = "kinds", "brains"
    x = request.inputs["x"]
    x.dtype, x.tensor_content = 14, b"\xc0\x3f\x10\xc0"
    for size in (1, 2):
        x.tensor_shape.dim.add(size=size)
    for answer in (zoo.ask("Predict", request, "PredictResponse"), zoo.predict("kinds", "brains", x=BETWEEN)):
        assert (answer.outputs["y"].dtype, to_array(answer.outputs["y"]).tolist()) == (1, [[1.5, -2.25]])
    assert zoo.post("kinds", "brains", instances=BETWEEN.tolist()).json() == {"predictions": [[1.5, -2.25]]}


def test_complex_numbers_go_both_ways(zoo: Zoo) -> None:
    sent = np.array([[1.5 - 2j, 0.25j], [-3, np.inf]])
    answer = to_array(zoo.predict("kinds", "waves", x=sent).outputs["y"])
    assert (answer.dtype, answer.tolist()) == (sent.dtype, sent.tolist())


@pytest.mark.parametrize(("model", "signature"), [("estimator", "sparse"), ("estimator", "ragged")])
def test_what_is_not_served_is_not_there_and_harms_nothing(zoo: Zoo, model: str, signature: str) -> None:
    refused = zoo.predict(model, signature, x=np.ones((1, 1), "f4"))
    assert refused == {"code": "FAILED_PRECONDITION", "details": f'Serving signature key "{signature}" not found.'}
    assert signature in zoo.server.said()


@pytest.mark.parametrize("model", MODELS)
def test_metadata_is_what_tensorflow_wrote(zoo: Zoo, model: str) -> None:
    found = zoo.stubs("metadata", model=model, saved_model=str(zoo.saved_model(model)))
    assert found["answered"] == found["written"]
    over_rest = zoo.get(f"/v1/models/{model}/metadata").json()
    assert over_rest["model_spec"] == {"name": model, "signature_name": "", "version": "1"}
    assert over_rest["metadata"]["signature_def"]["signature_def"] == found["written"]


def test_what_a_manifest_has_otherwise_is_described_so() -> None:
    definitions = message("tensorflow.serving.SignatureDefMap")()
    infos = definitions.signature_def["served"]
    for side, name, dtype in ((infos.inputs, "x", 1), (infos.outputs, "y", 1), (infos.outputs, "kept back", 1)):
        side[name].name, side[name].dtype = f"graph_{name}:0", dtype
        side[name].tensor_shape.dim.add(size=-1)
        side[name].tensor_shape.dim.add(size=1)
    infos.outputs["y"].tensor_shape.Clear()
    infos.outputs["y"].tensor_shape.unknown_rank = True
    definitions.signature_def["other"].CopyFrom(infos)
    inputs = (TensorSpec("at", "int64"), TensorSpec("x", "float32"))
    served = {"served": Signature(inputs, (TensorSpec("y", "float32", (-1, 2)),))}
    found = definitions_as_served(definitions.signature_def, served).signature_def
    assert found["other"] == infos
    told = found["served"]
    assert (sorted(told.inputs), sorted(told.outputs)) == (["at", "x"], ["y"])
    assert [(told.inputs[name].name, told.inputs[name].dtype) for name in ("at", "x")] == [("at", 9), ("graph_x:0", 1)]
    assert [[dim.size for dim in told.inputs[name].tensor_shape.dim] for name in ("at", "x")] == [[-1], [-1]]
    assert told.outputs["y"] == infos.outputs["y"]


def test_metadata_has_the_graphs_names_defaults_and_what_is_not_served(zoo: Zoo) -> None:
    signatures = zoo.get("/v1/models/kinds/metadata").json()["metadata"]["signature_def"]["signature_def"]
    defaulted = signatures["defaulted"]
    assert defaulted["inputs"]["x"]["name"] == "defaulted_x:0"
    assert defaulted["defaults"]["times"]["float_val"] == [3.0]
    assert signatures["brains"]["inputs"]["x"]["dtype"] == "DT_BFLOAT16"
