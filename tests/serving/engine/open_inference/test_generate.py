"""Triton's generate extension: one object is a request, and so is each answer, also as events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
import requests
from pydantic import BaseModel
from tests.support.clients.rest import call

from tidegate import Engine, TensorSpec
from tidegate_serving.config import EngineConfig


class Trip(BaseModel):
    distance: float


def words(text: Any, most: Any) -> Iterator[dict[str, Any]]:
    """The words of a text; a wrong one breaks it off."""
    for word in text.item().decode().split()[: int(most)]:
        if word == "wrong":
            raise ValueError("a wrong word")
        yield {"word": word, "length": len(word)}


def fare(trip: Trip) -> Trip:
    return trip


@pytest.fixture(scope="module")
def rest() -> Iterator[str]:
    anywhere = EngineConfig(grpc_address="", rest_address="127.0.0.1:0", control_address="")
    with Engine(anywhere) as engine:
        engine.serve(
            "words",
            words,
            inputs={"text": ("string", (1,)), "most": ("int64", ())},
            outputs={"word": ("string", ()), "length": ("int64", ())},
        )
        engine.serve("twice", lambda x: {"y": x * 2}, inputs={"x": TensorSpec("x", "float32", (-1, 1))})
        engine.serve("many", lambda x: {"y": x, "n": x[:, 0] > 1}, inputs={"x": TensorSpec("x", "float64", (-1, 2))})
        engine.serve("fare", fare)
        yield engine.addresses.rest


def test_one_object_is_answered_by_one(rest: str) -> None:
    head = {"model_name": "twice", "model_version": "1"}
    for x in (1.5, [1.5]):
        reply = call(rest, "POST", "/v2/models/twice/generate", {"x": x, "temperature": 0.5, "parameters": {"a": [1]}})
        assert (reply.status, reply.json()) == (200, {**head, "y": 3.0})
    reply = call(rest, "POST", "/v2/models/many/versions/1/generate", {"x": [1.5, 2.5]})
    assert reply.json() == {"model_name": "many", "model_version": "1", "y": [1.5, 2.5], "n": True}
    assert reply.headers["content-type"] == "application/json"


def test_a_stream_is_one_event_for_each_message_and_nothing_else(rest: str) -> None:
    head = {"model_name": "words", "model_version": "1"}
    for path, headers in (("generate_stream", {}), ("generate", {"Accept": "text/event-stream"})):
        reply = call(rest, "POST", f"/v2/models/words/{path}", {"text": "ebb and flow", "most": 2}, **headers)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream")
        events = reply.body.decode().split("\n\n")
        assert [json.loads(event.removeprefix("data: ")) for event in events[:-1]] == [
            {**head, "word": "ebb", "length": 3},
            {**head, "word": "and", "length": 3},
        ]
        assert events[-1] == ""
    nothing = call(rest, "POST", "/v2/models/words/generate_stream", {"text": "ebb", "most": 0})
    assert (nothing.status, nothing.body) == (200, b"")
    once = call(rest, "POST", "/v2/models/twice/generate_stream", {"x": 1})
    assert once.body == b'data: {"model_name":"twice","model_version":"1","y":2.0}\n\n'


def test_what_goes_wrong_in_a_stream_is_its_last_event(rest: str) -> None:
    reply = call(rest, "POST", "/v2/models/words/generate_stream", {"text": "ebb wrong flow", "most": 3})
    _, last, _ = reply.body.decode().split("\n\n")
    assert last.startswith("event: error\ndata: ")
    assert json.loads(last.partition("data: ")[2])["error"] == "words:1 raised ValueError: a wrong word"


def test_the_openapi_document_has_it(rest: str) -> None:
    paths = call(rest, "GET", "/openapi.json").json()["paths"]
    found = {path for path in paths if "generate" in path and "versions/" not in path}
    assert found == {
        "/v2/models/words/generate_stream",
        *(f"/v2/models/{name}/{ending}" for name in ("twice", "many") for ending in ("generate", "generate_stream")),
    }
    events = paths["/v2/models/words/generate_stream"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    assert set(events["x-event-data"]) == {"message", "error"}


WRONG: dict[str, tuple[str, Any, int, str]] = {
    "no object": ("twice/generate", [1], 400, "send an object with members x"),
    "no JSON": ("twice/generate", b"{", 400, "JSON Parse error"),
    "an input that is missing": ("twice/generate", {"z": 1}, 400, "member 'x' is missing"),
    "a list that is no input": ("twice/generate", {"x": 1, "z": [1]}, 400, "member 'z' is none of the inputs"),
    "another type": ("twice/generate", {"x": "one"}, 400, "member 'x': "),
    "one value for two": ("many/generate", {"x": 1}, 400, "member 'x': "),
    "a stream for one answer": ("words/generate", {"text": "a", "most": 1}, 400, "answers with a stream of messages"),
    "documents": ("fare/generate", {"distance": 1}, 400, "takes documents: send one to POST /inference/NAME"),
    "nobody": ("nobody/generate", {"x": 1}, 404, "Servable not found"),
    "nobody's stream": ("nobody/generate_stream", {"x": 1}, 404, "Servable not found"),
}


@pytest.mark.parametrize(("path", "body", "status", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(rest: str, path: str, body: Any, status: int, words: str) -> None:
    reply = call(rest, "POST", f"/v2/models/{path}", body)
    assert (reply.status, words in reply.json()["error"]) == (status, True), reply.body


def test_halves_are_numbers_as_in_plain_objects() -> None:
    anywhere = EngineConfig(grpc_address="", rest_address="127.0.0.1:0", control_address="")
    with Engine(anywhere) as engine:
        engine.serve("half", lambda x: {"y": x + x.dtype.type(0.1)}, inputs={"x": "float16"}, outputs={"y": "float16"})
        rest, kind = engine.addresses.rest, {"Content-Type": "application/msgpack"}
        packed = requests.post(f"http://{rest}/inference/half", msgpack.packb({"x": 0.5}), headers=kind, timeout=30)
        paths = ("/v2/models/half/generate", "/inference/half")
        answers = [call(rest, "POST", path, {"x": 0.5}).json() for path in paths]
        found = [answer["y"] for answer in (*answers, msgpack.unpackb(packed.content))]
        assert found == pytest.approx([0.6] * 3, abs=2**-11)
