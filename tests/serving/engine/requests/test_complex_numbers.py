"""Complex numbers go where TensorFlow Serving takes them, are logged by their parts, and refused in words elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as over_http
from tests.support.clients.open_inference import ask
from tests.support.clients.triton import tensor
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_operators.steps.warm_up_file import capture_warm_up
from tidegate_pipelines.receipts import Comparison, find_answers, receipt_of
from tidegate_serving.client import Client
from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.inference_log.reader import connect
from tidegate_serving.platforms.warm_up.records import read_records
from tidegate_serving.tensor_proto import to_array
from tidegate_validation.golden_requests import Recording

WAVES = """
import numpy as np

class Model:
    def predict(self, inputs):
        if "size" in inputs:
            return {"wave": inputs["size"] * 1j, "twice": inputs["size"] * 2}
        return {"turned": np.conj(inputs["wave"]), "size": np.abs(inputs["fine"])}
"""
SIGNATURES = {
    "serving_default": Signature(
        (TensorSpec("wave", "complex64", (-1, 2)), TensorSpec("fine", "complex128")),
        (TensorSpec("turned", "complex64", (-1, 2)), TensorSpec("size", "float64")),
    ),
    "made": Signature(
        (TensorSpec("size", "float64"),), (TensorSpec("wave", "complex128"), TensorSpec("twice", "float64"))
    ),
}
WAVE = np.array([[1.5 - 2j, 0.5j], [np.inf - 1j, 3], [-0.0, 1e-40j]], "complex64")
FINE = np.array([3 + 4j, -5j, 0.1])


@pytest.fixture(scope="module", params=["engine", "own"])
def engine(tmp_path_factory: pytest.TempPathFactory, request: Any) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp(request.param)
    draft = Draft(files={"model.py": WAVES}, signatures=SIGNATURES, example={"wave": [[1, 2], [0, 0]], "fine": [1, 0]})
    publish(folder / "models", "waves", 1, draft)
    values = {"log_path": folder / "log", "log_block_seconds": 0.05, "isolation": request.param}
    with EngineProcess(folder / "engine", repository=folder / "models", allow_unverified=True, **values) as running:
        yield running


@pytest.fixture
def client(engine: EngineProcess) -> Iterator[Client]:
    with engine.client() as client:
        yield client


def test_they_come_back_over_grpc_and_are_logged_as_pairs(engine: EngineProcess, client: Client) -> None:
    answer = client.predict("waves", {"wave": WAVE, "fine": FINE}, request_id="all").outputs
    assert (answer["turned"].dtype, answer["turned"].tobytes()) == (WAVE.dtype, np.conj(WAVE).tobytes())
    assert answer["size"].tolist() == np.abs(FINE).tolist()
    eventually(lambda: logged(engine, "count(*)", "all") == [(len(WAVE),)])
    rows = logged(engine, '"in.wave", "in.fine", "out.turned"', "all")
    for (wave, fine, turned), x, y in zip(rows, WAVE, FINE, strict=True):
        assert (wave, turned) == (pairs(x), pairs(np.conj(x)))
        assert fine == [y.real, y.imag]


def test_a_warm_up_file_has_them_as_they_were_sent(engine: EngineProcess, client: Client, tmp_path: Path) -> None:
    client.predict("waves", {"wave": WAVE, "fine": FINE}, request_id="kept")
    eventually(lambda: logged(engine, "count(*)", "kept") == [(len(WAVE),)])
    folder = engine.folder.parent
    wanted = Recording("waves", 1, ids=("kept",))
    file = capture_warm_up(folder / "log", wanted, tmp_path / "warm-up", like=folder / "models/waves/1").path
    (record,) = read_records(file)
    inputs = message("tensorflow.serving.PredictionLog").FromString(record).predict_log.request.inputs
    for name, sent in (("wave", WAVE), ("fine", FINE)):
        found = to_array(inputs[name])
        assert (found.dtype, found.tobytes()) == (sent.dtype, sent.tobytes())


def test_a_receipt_finds_the_answer_again(engine: EngineProcess, client: Client) -> None:
    fine = np.array([3 + 4j, np.nan, 1j])
    client.predict("waves", {"wave": WAVE, "fine": fine}, request_id="again")
    eventually(lambda: logged(engine, "count(*)", "again") == [(len(WAVE),)])
    (answer,) = find_answers(engine.folder.parent / "log", "again")
    found = receipt_of(answer, engine.folder.parent / "models/waves/1", again=True).again
    assert found is not None
    assert (found.comparison, found.difference) == (Comparison.SAME, 0.0)


def logged(engine: EngineProcess, what: str, request_id: str) -> list[Any]:
    """Of the rows of a request, in their order."""
    order = "" if what == "count(*)" else "ORDER BY row"
    with connect(engine.folder.parent / "log") as connection:
        return list(connection.execute(f"SELECT {what} FROM log WHERE request_id = '{request_id}' {order}").fetchall())


def pairs(row: Any) -> list[list[float]]:
    return [[float(value.real), float(value.imag)] for value in row]


def test_other_protocols_say_that_they_have_none(engine: EngineProcess, client: Client) -> None:
    with pytest.raises(Unsupported, match="streams carry no complex64"):
        client.stream("waves", {"wave": WAVE, "fine": FINE})
    row = {"wave": [1, 2], "fine": 1}
    body: Any = {"inputs": {"wave": [[1, 2]], "fine": [1]}}
    status, _, answer = ask(engine, "/v1/models/waves:predict", body)
    assert (status, b"Conversion of JSON Value: 1 to type: complex" in answer) == (501, True)
    status, _, answer = ask(engine, "/inference/waves", row, content_type="application/json")
    assert (status, b"member 'wave': Conversion of JSON Value: 1 to type: complex64" in answer) == (400, True)
    body = {"signature_name": "made", "instances": [1.0]}
    status, _, answer = ask(engine, "/v1/models/waves:predict", body)
    assert (status, json.loads(answer)) == (400, {"error": "Failed to write JSON value for tensor type: complex128"})
    for path in ("infer", "generate"):
        body = {"inputs": [{"name": "fine", "datatype": "FP64", "shape": [1], "data": [1]}]} if path == "infer" else row
        status, _, answer = ask(engine, f"/v2/models/waves/{path}", body)
        assert (status, b"'wave' is complex64, and this protocol has no complex numbers" in answer) == (501, True)


def test_a_client_of_triton_may_ask_for_other_outputs(engine: EngineProcess) -> None:
    with over_http.InferenceServerClient(engine.addresses["rest"]) as client:
        described = client.get_model_metadata("waves")["inputs"]
        assert [one["datatype"] for one in described] == ["COMPLEX64", "COMPLEX128"]
        inputs, parameters = [tensor(over_http, "size", np.array([1.5]))], {"signature_name": "made"}
        with pytest.raises(
            over_http.InferenceServerException, match=r"'wave' is complex128, .* ask .* for other outputs"
        ):
            client.infer("waves", inputs, parameters=parameters)
        wanted = [over_http.InferRequestedOutput("twice")]
        answer = client.infer("waves", inputs, outputs=wanted, parameters=parameters)
        assert answer.as_numpy("twice").tolist() == [3.0]


def test_descriptions_have_them_where_they_can_be_sent(engine: EngineProcess) -> None:
    metadata = json.loads(ask(engine, "/v1/models/waves/metadata")[2])
    defined = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    assert [defined[name]["dtype"] for name in ("fine", "wave")] == ["DT_COMPLEX128", "DT_COMPLEX64"]
    document = json.loads(ask(engine, "/openapi.json")[2])
    paths = {path.removeprefix("/v1/models/") for path in document["paths"]}
    assert not paths & {"waves:predict", "/inference/waves", "/v2/models/waves/generate"}
    assert "/v2/models/waves/infer" in paths, "of the signature that takes a plain number"
