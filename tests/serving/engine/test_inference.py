"""Plain objects over HTTP: published models of documents and of tensors, in the engine's process and in workers."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import requests
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.inference_log.reader import connect
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.python.platform import PythonPlatform
from tidegate_serving.platforms.unpublished import file_entries

TRIPS = """
from __future__ import annotations
import os
from datetime import date
from pydantic import Base64Bytes, BaseModel, Field

class Stop(BaseModel):
    name: str
    minutes: int = Field(ge=0)

class Trip(BaseModel):
    distance: float
    day: date = date(2013, 6, 1)
    stops: list[Stop] = []
    photo: Base64Bytes = b""

class Fare(BaseModel):
    amount: float
    together: int
    photo: Base64Bytes = b""

class Model:
    def predict(self, trips: list[Trip]) -> list[Fare]:
        if any(trip.distance < 0 for trip in trips):
            raise ValueError("a distance below zero")
        return [
            {"amount": "much" if trip.distance > 1000 else trip.distance + len(trip.stops), "together": len(trips),
             "photo": __import__("base64").b64encode(trip.photo)}
            for trip in trips
        ]
"""
DOUBLE = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] * 2, "s": inputs["s"]}
"""
TENSORS = Signature(
    (TensorSpec("x", "float32", (-1, 2)), TensorSpec("s", "string")),
    (TensorSpec("y", "float32", (-1, 2)), TensorSpec("s", "string")),
    defaults={"s": ["none"]},
)
COUNT = """
class Model:
    def predict(self, inputs):
        for i in range(int(inputs["n"])):
            yield {"i": i}
"""
STREAM = Signature(
    (TensorSpec("n", "int64", ()),), (TensorSpec("i", "int64", ()),), first_axis=FirstAxis.FREE, streaming=True
)


def described(folder: Path, source: str) -> Signature:
    """The signature that is read off a model's file when it is published."""
    (folder / "model.py").write_text(source)
    bare = Manifest(ServableId("m", 1), "python", {}, tuple(file_entries(folder / "model.py", folder)), "")
    return PythonPlatform(PlatformOptions()).discover(folder, bare).signatures[SERVING_DEFAULT]


@pytest.fixture(scope="module", params=["engine", "own"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("engine")
    drafts = {
        "trips": Draft(
            files={"model.py": TRIPS}, signature=described(folder, TRIPS), example={"request": '{"distance": 1}'}
        ),
        "double": Draft(files={"model.py": DOUBLE}, signature=TENSORS, example={"x": [1.0, 2.0], "s": "a"}),
        "count": Draft(files={"model.py": COUNT}, signature=STREAM, example={"n": 1}),
    }
    settings = {
        "log_path": folder / "log",
        "log_sampling_rate": 1.0,
        "log_block_seconds": 0.05,
        "max_message_bytes": 100_000,
        "isolation": request.param,
    }
    paths = [publish(folder / "r", name, 1, draft) for name, draft in drafts.items()]
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True, **settings) as running:
        with running.control() as control:
            for path in paths:
                push_and_wait(control, path)
        yield running


def post(
    engine: EngineProcess, path: str, data: bytes | str, sent: str | None = "application/json", **headers: str
) -> Any:
    told = {**({} if sent is None else {"Content-Type": sent}), **headers}
    return requests.post(f"http://{engine.addresses['rest']}{path}", data=data, headers=told, timeout=30)


def ask(engine: EngineProcess, model: str, document: Any) -> Any:
    return post(engine, f"/inference/{model}", json.dumps(document))


def test_a_document_is_answered_with_a_document(engine: EngineProcess) -> None:
    for address in ("trips", "trips/versions/1"):
        answer = ask(engine, address, {"distance": 2, "stops": [{"name": "a", "minutes": 3}]})
        assert answer.json() == {"amount": 3.0, "together": 1, "photo": ""}
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.headers["x-tidegate-version"] == "1"
    assert ask(engine, "trips/labels/none", {}).status_code == 400
    assert ask(engine, "nothing", {"distance": 2}).status_code == 404


def test_a_document_that_does_not_fit_is_told_all_that_is_wrong(engine: EngineProcess) -> None:
    answer = ask(engine, "trips", {"distance": "far" * 100, "stops": [{"name": 7, "minutes": -1}]})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/json")
    told = answer.json()
    assert [(one["type"], one["loc"]) for one in told["errors"]] == [
        ("float_parsing", ["distance"]),
        ("string_type", ["stops", 0, "name"]),
        ("greater_than_equal", ["stops", 0, "minutes"]),
    ]
    assert told["errors"][1] == {
        "type": "string_type",
        "loc": ["stops", 0, "name"],
        "msg": "Input should be a valid string",
        "input": 7,
    }
    assert told["errors"][0]["input"] == ("far" * 100)[:100] + "..."
    assert told["error"].startswith("the request does not fit its schema: distance: Input should be a valid number")
    assert told["error"].endswith(", and 2 more")
    missing = ask(engine, "trips", {"other": "x" * 5000}).json()["errors"]
    assert [(one["type"], one["loc"]) for one in missing] == [("missing", ["distance"])]
    assert len(missing[0]["input"]) < 110


def test_the_other_apis_take_documents_as_text(engine: EngineProcess) -> None:
    fits, does_not = json.dumps({"distance": 5}), json.dumps({"distance": "far"})
    told = post(engine, "/v1/models/trips:predict", json.dumps({"instances": [fits, fits]}))
    assert [json.loads(one) for one in told.json()["predictions"]] == [{"amount": 5.0, "together": 2, "photo": ""}] * 2
    refused = post(engine, "/v1/models/trips:predict", json.dumps({"instances": [fits, does_not]}))
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("the request does not fit its schema: distance: ")


def test_wrong_documents_do_not_harm_those_they_share_a_batch_with(engine: EngineProcess) -> None:
    bodies = [{"distance": 1}, {"distance": "far"}, {"distance": 2000}, {"distance": -1}] * 8
    answers: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()

    def one(at: int) -> None:
        answers.put((at, ask(engine, "trips", bodies[at]).status_code))

    threads = [threading.Thread(target=one, args=(at,)) for at in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = dict(answers.get() for _ in bodies)
    assert [found[at] for at in range(len(bodies))] == [200, 422, 500, 500] * 8
    broken = ask(engine, "trips", {"distance": 2000}).json()
    assert "the model returned what does not fit its schema" in broken["error"]
    assert "errors" not in broken


def test_messagepack_says_the_same_as_json(engine: EngineProcess) -> None:
    packed = "application/msgpack"
    body = msgpack.packb({"distance": 2.5, "photo": b"\x00\xff", "stops": [{"name": "ä", "minutes": 1}]})
    answer = post(engine, "/inference/trips", body, packed)
    assert (answer.status_code, answer.headers["content-type"]) == (200, packed)
    assert msgpack.unpackb(answer.content) == {"amount": 3.5, "together": 1, "photo": "AP8="}
    row = msgpack.packb({"x": [1.5, -2], "s": b"\x00\xff"})
    answer = post(engine, "/inference/double", row, "application/x-msgpack")
    assert answer.headers["content-type"] == "application/x-msgpack"
    assert msgpack.unpackb(answer.content) == {"y": [3.0, -4.0], "s": b"\x00\xff"}
    as_json = post(engine, "/inference/double", row, packed, Accept="text/html, application/json;q=0.9, */*;q=0.1")
    assert as_json.json() == {"y": [3.0, -4.0], "s": {"b64": "AP8="}}
    as_packed = post(engine, "/inference/double", '{"x": [1, 2]}', Accept=packed)
    assert msgpack.unpackb(as_packed.content) == {"y": [2.0, 4.0], "s": "none"}
    wrong = post(engine, "/inference/trips", msgpack.packb({"distance": "far"}), packed)
    assert (wrong.status_code, wrong.headers["content-type"]) == (422, "application/json")
    assert wrong.json()["errors"][0]["loc"] == ["distance"]


def test_a_model_of_tensors_takes_the_inputs_of_one_row(engine: EngineProcess) -> None:
    answer = ask(engine, "double", {"x": [1.5, -2], "s": "a"})
    assert answer.json() == {"y": [3.0, -4.0], "s": "a"}
    wrong = {
        '{"x": [1, 2], "z": 3}': "member 'z' is none of the inputs: send x, s",
        '{"s": "a"}': "member 'x' is missing: send an object with members x, s",
        '{"x": [1, 2], "x": [1, 2]}': "member 'x' came twice: send it once",
        '{"x": [1]}': "member 'x': ",
        '{"x": [1, 2], "s": 4}': "member 's': ",
        "[[1, 2]]": "the request is [[1, 2]]: send an object with members x, s",
    }
    for body, why in wrong.items():
        refused = post(engine, "/inference/double", body)
        assert refused.status_code == 400, body
        assert refused.json()["error"].startswith(why), refused.json()


def test_bodies_as_windows_writes_them(engine: EngineProcess) -> None:
    bodies = {
        "/inference/double": {"x": [1.5, -2]},
        "/inference/trips": {"distance": 2},
        "/v1/models/double:predict": {"instances": [{"x": [1.5, -2], "s": "a"}]},
        "/v2/models/double/infer": {
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.5, -2]},
                {"name": "s", "datatype": "BYTES", "shape": [1], "data": ["a"]},
            ]
        },
    }
    for path, document in bodies.items():
        marked = post(engine, path, json.dumps(document).encode("utf-8-sig"))
        assert (marked.status_code, marked.json()) == (200, post(engine, path, json.dumps(document)).json()), path
        refused = post(engine, path, json.dumps(document).encode("utf-16"))
        assert (refused.status_code, refused.json()["error"]) == (
            400,
            "JSON Parse error: the body is UTF-16: send it as UTF-8",
        )


def test_what_is_no_json_or_no_messagepack_reaches_no_model(engine: EngineProcess) -> None:
    for model in ("trips", "double"):
        for body, sent in ((b"{", "application/json"), (b"", "application/json"), (b"{} {}", "application/json")):
            refused = post(engine, f"/inference/{model}", body, sent)
            assert (refused.status_code, refused.json()["error"][:16]) == (400, "JSON Parse error"), body
        refused = post(engine, f"/inference/{model}", b"\x81\xa1x", "application/msgpack")
        assert refused.status_code == 400
        assert refused.json()["error"] == "MessagePack error: the message ends within a value at offset: 3"


def test_types_that_are_not_spoken_are_refused_by_name(engine: EngineProcess) -> None:
    refused = post(engine, "/inference/trips", "distance=1", "application/x-www-form-urlencoded")
    assert refused.status_code == 415
    assert refused.json()["error"] == (
        "the request's body is of type 'application/x-www-form-urlencoded': send application/json or "
        "application/msgpack, and say so in Content-Type"
    )
    unwanted = post(engine, "/inference/trips", '{"distance": 1}', Accept="text/html, application/json;q=0")
    assert unwanted.status_code == 406
    assert unwanted.json()["error"].startswith("the answer is wanted as 'text/html, application/json;q=0': accept ")
    assert post(engine, "/inference/trips", '{"distance": 1}', None).status_code == 200


def test_what_is_too_large_is_refused_also_once_it_is_text(engine: EngineProcess) -> None:
    assert post(engine, "/inference/trips", b" " * 100_001).status_code == 413
    nulls = msgpack.packb({"distance": [None] * 90_000})
    refused = post(engine, "/inference/trips", nulls, "application/msgpack")
    assert refused.status_code == 429
    assert "larger than the limit of 100000 bytes once it is read as JSON" in refused.json()["error"]


def test_without_a_name_there_must_be_one_model(engine: EngineProcess) -> None:
    refused = post(engine, "/inference", '{"distance": 1}')
    assert refused.status_code == 400
    assert refused.json()["error"] == (
        "more than one model serves: POST to /inference/NAME, where NAME is one of count, double, trips"
    )


def test_a_stream_has_a_plain_object_in_each_event(engine: EngineProcess) -> None:
    answer = post(engine, "/inference/count", '{"n": 2}', Accept="text/event-stream")
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text == 'data: {"i":0}\n\ndata: {"i":1}\n\nevent: end\ndata: {"messages":2}\n\n'
    assert post(engine, "/inference/count", '{"n": 2}').status_code == 400


def test_requests_are_logged_and_counted_as_others(engine: EngineProcess) -> None:
    request_id = f"plain-{engine.addresses['rest']}"
    body = msgpack.packb({"distance": 7})
    answer = post(engine, "/inference/trips", body, "application/msgpack", **{"X-Request-Id": request_id})
    assert answer.headers["x-request-id"] == request_id

    def logged(columns: str) -> list[Any]:
        with connect(engine.folder.parent / "log") as log:
            return list(log.execute(f"select {columns} from log where request_id = ?", [request_id]).fetchall())

    eventually(lambda: logged("status"))  # before, the log may have other models' columns alone
    rows = logged('"in.request", "out.response", status')
    assert [(json.loads(sent), json.loads(gave), status) for sent, gave, status in rows] == [
        ({"distance": 7}, {"amount": 7.0, "together": 1, "photo": ""}, 0)
    ]


def test_a_file_tells_its_documents_when_it_is_published(tmp_path: Path) -> None:
    signature = described(tmp_path, TRIPS)
    assert signature.schema is not None
    assert signature.schema.request["required"] == ["distance"]
    assert set(signature.schema.response["properties"]) == {"amount", "together", "photo"}
    assert Signature.from_dict(json.loads(json.dumps(signature.to_dict()))) == signature
    with pytest.raises(Unsupported, match="annotate the parameter of `predict`"):
        described(tmp_path, DOUBLE)


def test_a_signature_of_documents_needs_a_method_of_documents(tmp_path: Path) -> None:
    signature = described(tmp_path, TRIPS)
    (tmp_path / "model.py").write_text(DOUBLE)
    files = tuple(file_entries(tmp_path / "model.py", tmp_path))
    manifest = Manifest(ServableId("m", 1), "python", {SERVING_DEFAULT: signature}, files, "")
    with pytest.raises(InvalidInput, match="annotated with no pydantic model"):
        PythonPlatform(PlatformOptions()).load(tmp_path, manifest)
