"""SavedModels as TensorFlow's own exporters write them, served by an engine in a process of its own."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.clients import official_client, rest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.saved_models import CLASSIFY, DTYPES, REGRESS
from tests.support.models.versions import flip

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import InvalidInput, ModelFailed, TidegateError
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import State
from tidegate_serving.platforms.warm_up.records import read_records, write_records
from tidegate_serving.platforms.warm_up.runner import FILE

GOOD = ("half_plus_two", "quickstart", "keras", "strings", "shapes", "dtypes", "strict", "large", "warm")
BAD = {
    "cut": (InvalidInput.grpc_code, "saved_model.pb is no SavedModel, or cut short"),
    "lost": (ModelFailed.grpc_code, "is a SavedModel that TensorFlow cannot load"),
    "flipped": (ModelFailed.grpc_code, "is a SavedModel that TensorFlow cannot load"),
    "cold": (InvalidInput.grpc_code, "warm-up request 1 of"),
}


@pytest.fixture(scope="module")
def repository(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tensorflow") / "models"
    root.mkdir()
    for name in GOOD:
        (root / name).mkdir()
        (root / name / "1").symlink_to(saved_models / name / "1")
    for name in BAD:
        shutil.copytree(saved_models / ("warm" if name == "cold" else "half_plus_two"), root / name)
    shutil.copytree(saved_models / "half_plus_two", root / "text")
    pb = root / "text/1/saved_model.pb"
    text = str(message("tensorflow.SavedModel").FromString(pb.read_bytes()))
    pb.with_suffix(".pbtxt").write_text(text)
    pb.unlink()
    pb = root / "cut/1/saved_model.pb"
    pb.write_bytes(pb.read_bytes()[:-100])
    next((root / "lost/1/variables").glob("*.data*")).unlink()
    flip(next((root / "flipped/1/variables").glob("*.data*")), 1)
    records = list(read_records(root / "cold/1" / FILE))
    log = message("tensorflow.serving.PredictionLog")()
    log.regress_log.request.input.example_list.examples.add()
    write_records(root / "cold/1" / FILE, [records[0], log.SerializeToString()])
    return root


@pytest.fixture(scope="module")
def engine(repository: Path) -> Iterator[EngineProcess]:
    settings: dict[str, Any] = {"allow_unverified": True, "allow_unpublished": True, "quiet_seconds": 0.0}
    labels = {"models.half_plus_two.labels": {"canary": 1}}
    running = EngineProcess(repository.parent / "engine", repository=repository, **settings, **labels)
    with running:
        yield running


@pytest.fixture(scope="module")
def client(engine: EngineProcess) -> Iterator[Client]:
    with engine.client() as client:
        yield client


def ask(client: Client, model: str, signature: str = "serving_default", **inputs: Any) -> dict[str, Any]:
    return dict(client.predict(model, inputs, signature=signature).outputs)


def examples(*values: float, feature: str = "x") -> Any:
    made = []
    for value in values:
        example = message("tensorflow.Example")()
        example.features.feature[feature].float_list.value.append(value)
        made.append(example.SerializeToString())
    return np.array(made, dtype=object)


def test_half_plus_two_answers_over_grpc_and_rest(engine: EngineProcess, client: Client) -> None:
    assert ask(client, "half_plus_two", x=np.array([1, 2, 5], "f4"))["y"].tolist() == [2.5, 3.0, 4.5]
    reply = rest.predict(engine.addresses["rest"], "half_plus_two", [1.0, 2.0, 5.0])
    assert (reply.status, reply.json()) == (200, {"predictions": [2.5, 3.0, 4.5]})


def test_a_saved_model_in_text_form_is_served(client: Client) -> None:
    assert ask(client, "text", x=np.array([1, 2], "f4"))["y"].tolist() == [2.5, 3.0]


def test_the_official_client_is_served(engine: EngineProcess) -> None:
    said = official_client.run("predicting", engine.addresses["grpc"], "half_plus_two")
    assert said["content"] == said["values"] == {"y": [2.5, 3.0, 4.5], "version": 1}
    assert said["filled"] == said["label"] == {"y": [4.0, 4.0, 4.0], "version": 1}
    assert (said["status"], said["method"]) == ({"1": 30}, "tensorflow/serving/predict")


def test_the_quickstart_is_asked_and_answered_without_its_second_axis(engine: EngineProcess, client: Client) -> None:
    (spec,) = client.signatures("quickstart")["serving_default"].inputs
    assert (spec.name, spec.shape) == ("x", (-1, 1))
    assert ask(client, "quickstart", x=np.array([1, 2, 5], "f4"))["y"].tolist() == [2.5, 3.0, 4.5]
    assert ask(client, "quickstart", x=np.array([[1], [2]], "f4"))["y"].tolist() == [[2.5], [3.0]]
    reply = rest.predict(engine.addresses["rest"], "quickstart", [1.0, 2.0, 5.0])
    assert (reply.status, reply.json()) == (200, {"predictions": [2.5, 3.0, 4.5]})


def test_every_signature_is_there_with_its_method(client: Client) -> None:
    signatures = client.signatures("half_plus_two")
    assert {name: signature.method_name for name, signature in signatures.items()} == {
        "serving_default": "tensorflow/serving/predict",
        "regress_x_to_y": REGRESS,
        "regress_x_to_y2": REGRESS,
        "regress_x2_to_y3": REGRESS,
        "classify_x_to_y": CLASSIFY,
    }
    (score,) = [spec for spec in signatures["classify_x_to_y"].outputs if spec.name == "scores"]
    assert (score.dtype, score.shape) == ("float32", (-1, 2))


def test_graphs_parse_serialised_examples(client: Client) -> None:
    answer = ask(client, "half_plus_two", "regress_x2_to_y3", inputs=examples(4, 6, feature="x2"))
    assert answer["outputs"].tolist() == [[5.0], [6.0]]
    answer = ask(client, "half_plus_two", "classify_x_to_y", inputs=examples(4))
    assert answer["scores"].tolist() == [[4.0, -4.0]]
    assert answer["classes"].tolist() == [[b"half", b"plus"]]


def test_examples_are_classified_and_regressed(engine: EngineProcess) -> None:
    def post(verb: str, signature: str, **body: Any) -> tuple[int, Any]:
        path = f"/v1/models/half_plus_two:{verb}"
        reply = rest.call(engine.addresses["rest"], "POST", path, {"signature_name": signature, **body})
        return reply.status, reply.json()

    found = post("classify", "classify_x_to_y", examples=[{"x": 4.0}, {"x": [6.0]}])
    assert found == (200, {"results": [[["half", 4.0], ["plus", -4.0]], [["half", 5.0], ["plus", -5.0]]]})
    found = post("regress", "regress_x_to_y", context={"x": 4.0}, examples=[{}, {"x": 6.0}])
    assert found == (200, {"results": [4.0, 5.0]})
    status, body = post("regress", "regress_x_to_y", examples=[{"x": 4}])
    assert (status, "Data types don't match. Data type: int64 but expected type: float" in body["error"]) == (400, True)
    status, body = post("regress", "classify_x_to_y", examples=[{"x": 4.0}])
    text = f"Expected regression signature method_name to be {REGRESS}. Was: {CLASSIFY}"
    assert (status, body) == (400, {"error": text})


def test_bytes_that_are_no_example_are_the_clients_fault(client: Client) -> None:
    with pytest.raises(InvalidInput, match="Could not parse example input"):
        ask(client, "half_plus_two", "regress_x_to_y", inputs=np.array([b"\xff\xff\xff"], dtype=object))


def test_keras_exports_with_odd_names_answer_for_a_batch_as_for_one(client: Client) -> None:
    random = np.random.default_rng(0)
    age, rest_of_it = random.normal(size=(50, 1)).astype("f4"), random.normal(size=(50, 3)).astype("f4")

    def scores(rows: Any) -> Any:
        inputs = {"Age-in.years": age[rows], "rest-of.it": rest_of_it[rows]}
        return client.predict("keras", inputs).outputs["output_0"]

    together = scores(slice(None))
    np.testing.assert_allclose(together.sum(axis=1), 1, rtol=1e-5)
    assert np.ptp(together[:, 0]) > 0.01
    for row in (0, 17, 49):
        np.testing.assert_allclose(scores([row])[0], together[row], rtol=1e-5)


def test_strings_are_bytes_both_ways_and_vocabularies_come_along(client: Client) -> None:
    words = np.array([b"gate", "é".encode(), b"\xff\x00", b"", b"sluice"], dtype=object)
    answer = ask(client, "strings", text=words)
    assert answer["number"].tolist() == [1, -1, -1, -1, 2]
    assert answer["length"].tolist() == [4, 2, 2, 0, 6]
    assert answer["doubled"].tolist() == [word + b"\x00" + word for word in words]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_as_it_went(client: Client, dtype: str) -> None:
    values = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    answer = ask(client, "dtypes", dtype, x=values)["y"]
    assert answer.dtype == values.dtype
    np.testing.assert_array_equal(answer, values)


def test_what_cannot_be_served_is_said_and_hurts_no_other_signature(engine: EngineProcess, client: Client) -> None:
    assert ask(client, "shapes", x=np.ones((2, 3), "f4"))["sum"].tolist() == [3.0, 3.0]
    assert ask(client, "shapes", "wide", x=np.ones((2, 5, 2), "f4"))["sum"].tolist() == [10.0, 10.0]
    others = {"complex", "fixed", "hidden", "scaled", "unranked", "vanishing"}
    assert set(client.signatures("shapes")) == {"serving_default", "wide", *others}
    (line,) = [line for line in engine.said().splitlines() if "signature 'quantized' is not served" in line]
    assert "data type 12" in line


def test_outputs_that_no_trial_shows_come_as_they_are(client: Client) -> None:
    with pytest.raises(InvalidInput, match="reshape"):
        ask(client, "shapes", "vanishing", x=np.ones((2, 2), "f4"))


def test_outputs_of_unknown_rank_are_found_by_trial(client: Client) -> None:
    outputs = {spec.name: (spec.shape, spec.unknown_rank) for spec in client.signatures("shapes")["hidden"].outputs}
    assert outputs == {"y": ((), True), "z": ((-1,), False)}
    block = np.arange(6, dtype="f4").reshape(3, 2)
    answer = ask(client, "shapes", "hidden", x=block)
    assert answer["y"].tolist() == block[:, :, None].tolist()


def test_a_fixed_batch_answers_any_number_of_rows(client: Client) -> None:
    for rows in (1, 4, 7):
        block = np.arange(rows * 3, dtype="f4").reshape(rows, 3)
        assert ask(client, "shapes", "fixed", x=block)["sum"].tolist() == block.sum(1).tolist()


def test_what_an_op_refuses_is_the_clients_fault_in_tensorflows_words(engine: EngineProcess, client: Client) -> None:
    with pytest.raises(InvalidInput, match=r"^assertion failed: \[x must not be negative"):
        ask(client, "strict", x=np.array([1, -1], "f4"))
    with pytest.raises(InvalidInput, match=r"^Integer division by zero"):
        ask(client, "strict", "divide", a=np.array([1]), b=np.array([0]))
    reply = rest.predict(engine.addresses["rest"], "strict", [4.0, -1.0])
    assert reply.status == 400
    assert reply.json()["error"].startswith("assertion failed: [x must not be negative")


def test_a_refused_row_fails_alone_in_its_batch(client: Client) -> None:
    values = [float(number) for number in range(24)]
    values[13] = -1.0
    found: dict[int, Any] = {}

    def one(index: int) -> None:
        try:
            found[index] = ask(client, "strict", x=np.array([values[index]], "f4"))["y"][0]
        except TidegateError as error:
            found[index] = error

    threads = [threading.Thread(target=one, args=(index,)) for index in range(len(values))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert isinstance(found.pop(13), InvalidInput)
    assert {index: round(float(value) ** 2) for index, value in found.items()} == {
        index: index for index in range(24) if index != 13
    }


@pytest.mark.parametrize("name", list(BAD))
def test_a_version_that_cannot_be_loaded_says_why(client: Client, name: str) -> None:
    """Between its tries; it is loading again and again."""
    change = eventually(lambda: next((found for found in client.model_status(name) if found.state is State.END), None))
    assert change is not None
    code, message = BAD[name]
    assert change.error_code == str(code)
    assert message in change.error_message
    assert f"{name}/1" in change.error_message


def test_a_version_is_warmed_by_requests_of_every_kind(client: Client) -> None:
    (change,) = client.model_status("warm")
    assert change.state is State.AVAILABLE, change.error_message


def test_memory_is_given_back(engine: EngineProcess, client: Client, repository: Path, saved_models: Path) -> None:
    row = np.array([3, 5], "i4")
    before = resident(engine)
    assert ask(client, "large", row=row)["value"].shape == (2,)
    (repository / "large/2").symlink_to(saved_models / "half_plus_two/1")
    eventually(lambda: [change.state for change in client.model_status("large")] == [State.AVAILABLE, State.END])
    eventually(lambda: before - resident(engine) > 60_000_000)


def resident(engine: EngineProcess) -> int:
    assert engine.process is not None
    pages = Path(f"/proc/{engine.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
