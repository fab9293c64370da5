"""Functions of documents in a program of its own: served by their annotations, asked over HTTP and in process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, RootModel
from tests.support.clients.rest import Reply, call
from tests.support.eventually import eventually

from tidegate import Engine
from tidegate_serving.config import BatchingConfig, EngineConfig
from tidegate_serving.contract.errors import InvalidInput, ModelFailed


class Trip(BaseModel):
    distance: float


class Fare(BaseModel):
    amount: float


class Distances(RootModel[list[float]]):
    pass


def fare(trip: Trip) -> Fare:
    return Fare(amount=trip.distance * 2)


def fares(trips: list[Trip]) -> list[Fare]:
    return [Fare(amount=trip.distance * len(trips)) for trip in trips]


class Callable:
    def __call__(self, trip: Trip) -> Any:
        return {"amount": trip.distance}


class Predicts:
    def predict(self, distances: Distances) -> float:
        return sum(distances.root)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(EngineConfig(grpc_address="", rest_address="127.0.0.1:0", control_address="")) as made:
        yield made


def ask(engine: Engine, path: str, document: Any) -> Reply:
    return call(engine.addresses.rest, "POST", path, document, content_type="application/json")


def test_annotations_say_what_a_function_takes(engine: Engine) -> None:
    for model, document, answer in (
        (fare, {"distance": 2}, {"amount": 4.0}),
        (fares, {"distance": 2}, {"amount": 2.0}),
        (Callable(), {"distance": 2}, {"amount": 2}),
        (Predicts(), [1, 2.5], 3.5),
    ):
        engine.serve("m", model)
        reply = ask(engine, "/inference", document)
        assert (reply.status, reply.json()) == (200, answer), model


def test_in_process_a_document_is_a_row_of_text(engine: Engine) -> None:
    engine.serve("m", fares)
    rows = [json.dumps({"distance": distance}) for distance in (1, 2)]
    answer = engine.predict("m", {"request": rows})
    assert [json.loads(one) for one in answer["response"]] == [{"amount": 2.0}, {"amount": 4.0}]
    with pytest.raises(InvalidInput, match=r"does not fit its schema: distance: Field required"):
        engine.predict("m", {"request": ["{}"]})


def test_without_a_name_the_only_model_answers(engine: Engine) -> None:
    nobody = ask(engine, "/inference", {"distance": 2})
    assert (nobody.status, nobody.json()["error"][:15]) == (404, "no model serves")
    engine.serve("a.b", fare)
    engine.serve("a.b", fare, keep=True)
    assert ask(engine, "/inference", {"distance": 2}).headers["x-tidegate-version"] == "2"
    assert ask(engine, "/inference/a%2Eb/versions/1", {"distance": 2}).headers["x-tidegate-version"] == "1"
    engine.serve("c", fare)
    refused = ask(engine, "/inference", {"distance": 2})
    assert (refused.status, refused.json()["error"].rpartition("where ")[2]) == (400, "NAME is one of a.b, c")
    assert call(engine.addresses.rest, "GET", "/inference").status == 404


def test_a_function_of_documents_that_returns_too_few_fails(engine: Engine) -> None:
    def none(trips: list[Trip]) -> list[Fare]:
        return []

    def text(trips: list[Trip]) -> list[Fare]:
        return "x"  # type: ignore[return-value]

    for function, why in ((none, "returned 0 results for 1 requests"), (text, "returned str for 1 requests")):
        function.__annotations__ = {"trips": list[Trip], "return": list[Fare]}
        engine.serve("m", function)
        with pytest.raises(ModelFailed, match=why):
            engine.predict("m", {"request": ['{"distance": 1}']})


def test_a_generator_of_documents_is_refused(engine: Engine) -> None:
    def stream(trip: Trip) -> Iterator[Fare]:
        yield Fare(amount=trip.distance)

    stream.__annotations__ = {"trip": Trip}
    with pytest.raises(InvalidInput, match="is a generator of documents, which cannot be streamed"):
        engine.serve("m", stream)


def test_an_annotation_that_nobody_knows_is_told_of(engine: Engine) -> None:
    def unknown(trip: Nowhere) -> Fare:  # type: ignore[name-defined]  # noqa: F821
        return Fare(amount=0)

    with pytest.raises(InvalidInput, match="annotate the only parameter with a pydantic model from the top"):
        engine.serve("m", unknown)


def test_a_full_queue_refuses_at_once() -> None:
    go, begun = threading.Event(), threading.Event()

    def slow(trip: Trip) -> Fare:
        begun.set()
        go.wait()
        return Fare(amount=trip.distance)

    slow.__annotations__ = {"trip": Trip, "return": Fare}
    one_by_one = BatchingConfig(max_batch_rows=1, max_queued_rows=1)
    config = EngineConfig(
        grpc_address="", rest_address="127.0.0.1:0", control_address="", batching=one_by_one, request_timeout_seconds=30
    )
    with Engine(config) as engine:
        engine.serve("slow", slow)
        replies: list[Reply] = []

        def one() -> None:
            replies.append(ask(engine, "/inference/slow", {"distance": 1}))

        threads = [threading.Thread(target=one) for _ in range(6)]
        threads[0].start()
        assert begun.wait(30)
        for thread in threads[1:]:
            thread.start()
        eventually(lambda: [reply.status for reply in replies] and replies[0].status == 429)
        go.set()
        for thread in threads:
            thread.join()
    assert {reply.status for reply in replies} == {200, 429}


def test_a_deadline_that_passes_is_told_and_its_work_not_waited_for() -> None:
    go = threading.Event()

    def stuck(trip: Trip) -> Fare:
        go.wait()
        return Fare(amount=trip.distance)

    stuck.__annotations__ = {"trip": Trip, "return": Fare}
    config = EngineConfig(grpc_address="", rest_address="127.0.0.1:0", control_address="", request_timeout_seconds=1.5)
    with Engine(config) as engine:
        engine.serve("stuck", stuck)
        engine.serve("quick", fare)
        late = ask(engine, "/inference/stuck", {"distance": 1})
        quick = ask(engine, "/inference/quick", {"distance": 1})
        go.set()
    assert (late.status, quick.status) == (504, 200)


def test_the_openapi_document_has_the_schemas(engine: Engine) -> None:
    class Stops(BaseModel):
        trips: list[Trip]

    def total(stops: Stops) -> Fare:
        return Fare(amount=sum(trip.distance for trip in stops.trips))

    total.__annotations__ = {"stops": Stops, "return": Fare}
    engine.serve("a.b", total)
    document = call(engine.addresses.rest, "GET", "/openapi.json").json()
    operation, schemas = document["paths"]["/inference/a.b"]["post"], document["components"]["schemas"]
    body, answers = operation["requestBody"]["content"], operation["responses"]
    assert set(body) == set(answers["200"]["content"]) == {"application/json", "application/msgpack"}
    assert body["application/json"]["schema"] == {"$ref": "#/components/schemas/a.b.1.inference.request"}
    assert answers["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/a.b.1.inference.response"
    }
    assert answers["422"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Errors"}
    request = schemas["a.b.1.inference.request"]
    assert request["properties"]["trips"]["items"] == {
        "$ref": "#/components/schemas/a.b.1.inference.request/$defs/Trip"
    }
    assert request["$defs"]["Trip"]["required"] == ["distance"]
    assert schemas["a.b.1.inference.response"]["properties"]["amount"]["type"] == "number"
