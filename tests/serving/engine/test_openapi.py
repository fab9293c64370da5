"""The OpenAPI document of the REST endpoint: requests made from it are accepted, and those that break it are not."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from tests.support.clients.rest import call

from tidegate import Engine, TensorSpec
from tidegate_serving.config import EngineConfig

MODELS = ("one", "several", "strings", "flat", "small")
REQUESTS = 40
CLASSES = {"labels": TensorSpec("labels", "string", (-1, 2)), "scores": TensorSpec("scores", "float32", (-1, 2))}
FEATURES = {
    "a": "float32",
    "b": TensorSpec("b", "int64", (-1, 3)),
    "c": TensorSpec("c", "string", (-1, 1)),
    "d": "bool",
}
HALF = {"x": TensorSpec("x", "float16", (-1,))}
GENERATE = ("/v2/models/{}/generate", "/v2/models/{}/generate_stream")


def classes(a: Any, b: Any, c: Any, d: Any) -> dict[str, Any]:
    rows = len(a)
    return {"labels": np.full((rows, 2), "x", dtype=object), "scores": np.full((rows, 2), np.finfo("float32").max)}


def count(n: Any) -> Iterator[dict[str, int]]:
    """Fails after its first message where there are more than three."""
    for i in range(abs(int(n))):
        if i == 1 and n > 3:
            raise ValueError("too many")
        yield {"i": i}


@pytest.fixture(scope="module")
def rest() -> Iterator[str]:
    anywhere = EngineConfig(grpc_address="", rest_address="127.0.0.1:0", control_address="")
    with Engine(anywhere) as engine:
        engine.serve("one", lambda x: {"y": x * 2}, inputs={"x": TensorSpec("x", "float32", (-1, 3))})
        engine.serve(
            "several",
            lambda a, b, c: {"a": a, "b": b, "c": c},
            inputs={"a": "int32", "b": TensorSpec("b", "float64", (-1, 2, 2)), "c": "bool"},
        )
        engine.serve("strings", lambda s: {"n": np.array([len(one) for one in s])}, inputs={"s": "string"})
        engine.serve("flat", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float32", (-1, 1))})
        engine.serve("small", lambda x: {"y": x}, inputs={"x": "uint8"})
        engine.serve("half", lambda x: {"y": x}, inputs=HALF)
        engine.serve("versions", lambda x: {"y": x}, inputs={"x": "float32"}, version=1)
        engine.serve("versions", lambda z: {"y": z}, inputs={"z": "string"}, version=2, keep=True)
        engine.traffic.set_labels("versions", {"stable": 1, "next one": 2})
        engine.serve("classes", classes, inputs=FEATURES, outputs=CLASSES)
        engine.serve("number", lambda x: {"y": x}, inputs={"x": "float32"}, outputs={"y": "float32"})
        engine.serve("count", count, inputs={"n": ("int64", ())}, outputs={"i": ("int64", ())})
        yield engine.addresses.rest


@pytest.fixture(scope="module")
def document(rest: str) -> dict[str, Any]:
    reply = call(rest, "GET", "/openapi.json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = reply.json()
    return found


def whole(document: dict[str, Any], schema: Any) -> Any:
    """A schema with what it refers to in its place."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            place: Any = document
            for key in schema["$ref"].removeprefix("#/").split("/"):
                place = place[key]
            return whole(document, place)
        return {key: whole(document, value) for key, value in schema.items()}
    return [whole(document, one) for one in schema] if isinstance(schema, list) else schema


def schema_of(document: dict[str, Any], path: str) -> Any:
    return whole(document, document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"])


def answer_of(document: dict[str, Any], path: str, method: str = "post", status: str = "200") -> Any:
    answers = document["paths"][path][method]["responses"][status]["content"]
    return whole(document, answers["application/json"]["schema"])


def sample(schema: Any, chance: random.Random, length: int) -> Any:
    """A value that a schema allows; lists of any length get `length`."""
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return sample(chance.choice(schema["anyOf"]), chance, length)
    match schema["type"]:
        case "object":
            optional = [key for key in schema.get("properties", {}) if key not in schema.get("required", [])]
            keys = [*schema.get("required", []), *(key for key in optional if chance.random() < 0.5)]
            return {key: sample(schema["properties"][key], chance, length) for key in keys}
        case "array" if schema.get("minItems") == schema.get("maxItems") and "minItems" in schema:
            return [sample(schema["items"], chance, length) for _ in range(schema["minItems"])]
        case "array":
            return [sample(schema["items"], chance, length) for _ in range(length)]
    return scalar(schema, chance)


def scalar(schema: Any, chance: random.Random) -> Any:
    match schema["type"]:
        case "integer":
            return chance.randint(schema["minimum"], schema["maximum"])
        case "number":
            return chance.uniform(-6e4, 6e4)
        case "boolean":
            return chance.random() < 0.5
        case "string" if schema.get("contentEncoding") == "base64":
            return "aGVsbG8="
        case "string":
            return chance.choice(["", "plain", 'quoted "text"', "ünïcode"])
    raise AssertionError(f"a schema that samples are not made of: {schema}")


def broken(value: Any, chance: random.Random) -> Any:
    """The same with one thing changed somewhere: a type, a name, a length."""
    if isinstance(value, dict) and value:
        key = chance.choice(list(value))
        if chance.random() < 0.3:
            return {**{name: item for name, item in value.items() if name != key}, "another": value[key]}
        return {**value, key: broken(value[key], chance)}
    if isinstance(value, list) and value:
        if chance.random() < 0.3:
            return value[:-1]
        at = chance.randrange(len(value))
        return [*value[:at], broken(value[at], chance), *value[at + 1 :]]
    return chance.choice(["text", 3.5, None, [[[[[1]]]]], 10**30])


def test_the_document_is_one(document: dict[str, Any]) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # its import takes half a second

    OpenAPIV31SpecValidator(document).validate()
    assert {f"/v1/models/{name}:predict" for name in MODELS} <= set(document["paths"])
    assert "security" not in document
    assert {path for path in document["paths"] if "/half" in path and "post" in document["paths"][path]} == {
        path.format(half)
        for half in ("half", "half/versions/1")
        for path in ("/v1/models/{}:regress", "/inference/{}", "/v2/models/{}/infer", *GENERATE)
    }, "but for examples, TensorFlow Serving's JSON has no halves"


def test_what_can_be_looked_at_looks_as_it_says(rest: str, document: dict[str, Any]) -> None:
    looked = [path for path, item in document["paths"].items() if "get" in item and path != "/metrics"]
    assert len(looked) > 100
    for path in looked:
        reply = call(rest, "GET", path)
        assert reply.status == 200, path
        Draft202012Validator(answer_of(document, path, "get")).validate(reply.json())
    index = call(rest, "POST", "/v2/repository/index")
    Draft202012Validator(answer_of(document, "/v2/repository/index")).validate(index.json())


@pytest.mark.parametrize("place", ["versions/1", "labels/stable", "versions/2", "labels/next%20one", ""])
@pytest.mark.parametrize("form", ["/v1/models/{}:predict", "/v2/models/{}/infer", "/inference/{}"])
def test_each_version_and_label_has_paths_of_its_own(rest: str, document: Any, place: str, form: str) -> None:
    path = form.format(f"versions/{place}".rstrip("/"))
    allowed = Draft202012Validator(schema_of(document, path))
    values = {"x": ("FP32", 1.5), "z": ("BYTES", "a")}
    kinds = {name: kind for name, (kind, _) in values.items()}
    tensors = {
        name: [{"name": name, "datatype": kinds[name], "shape": [1], "data": [values[name][1]]}] for name in values
    }
    bodies: dict[str, dict[str, Any]] = {
        "/v1": {name: {"inputs": [value]} for name, (_, value) in values.items()},
        "/v2": {name: {"inputs": tensors[name]} for name in values},
        "/in": {name: {name: value} for name, (_, value) in values.items()},
    }
    answered = "z" if place in ("versions/2", "labels/next%20one") else "x"
    for name, body in bodies[path[:3]].items():
        assert allowed.is_valid(body) == (name == answered)
        reply = call(rest, "POST", path, body)
        assert reply.status == (200 if name == answered else 400), reply.body
        if name == answered:
            Draft202012Validator(answer_of(document, path)).validate(reply.json())


@pytest.mark.parametrize("path", ["classes:classify", "classes/versions/1:classify", "number:regress", "half:regress"])
def test_examples_are_classified_and_regressed(rest: str, document: dict[str, Any], path: str) -> None:
    path = f"/v1/models/{path}"
    schema = schema_of(document, path)
    allowed, answers = Draft202012Validator(schema), Draft202012Validator(answer_of(document, path))
    chance, refused = random.Random(path), 0
    for _ in range(REQUESTS):
        body = examples(sample(schema["anyOf"][0], chance, chance.randint(1, 3)))
        allowed.validate(body)
        reply = call(rest, "POST", path, body)
        assert reply.status == 200, (body, reply.body)
        answers.validate(reply.json())
        wrong = broken(copy.deepcopy(body), chance)
        if not allowed.is_valid(wrong):
            refused += 1
            assert call(rest, "POST", path, wrong).status in (200, 400), wrong
    assert refused > REQUESTS / 4


def examples(body: Any) -> Any:
    """Without the context, whose features would have to be of the same kinds as those of the examples."""
    return {key: value for key, value in body.items() if key != "context"}


def test_what_breaks_the_schema_of_examples_is_refused(rest: str, document: dict[str, Any]) -> None:
    path = "/v1/models/classes:classify"
    good = {"a": 1.5, "b": [1, 2, 3], "c": "x", "d": True}
    allowed = Draft202012Validator(schema_of(document, path))
    allowed.validate({"examples": [good]})
    assert call(rest, "POST", path, {"examples": [good]}).status == 200
    mixed = ({"a": "x"}, {"b": [1, 2]}, {"b": 1}, {"c": 5}, {"d": "x"}, {"a": [1, 2.5]}, {"c": ["x", "y"]}, {"d": 7})
    wrongs: list[Any] = [{"examples": [{**good, **one}]} for one in mixed]
    wrongs += [{"examples": []}, {"examples": good}, {}, {"examples": [{"a": 1.5}]}, {"examples": [[1]]}]
    for wrong in wrongs:
        assert not allowed.is_valid(wrong), wrong
        assert call(rest, "POST", path, wrong).status == 400, wrong
    assert "/v1/models/strings:classify" not in document["paths"]
    assert call(rest, "POST", "/v1/models/strings:classify", {"examples": [{"s": "x"}]}).status == 400


@pytest.mark.parametrize("path", ["/v1/models/count:predict", "/v2/models/count/infer", "/inference/count"])
def test_events_have_the_data_that_the_document_says(rest: str, document: dict[str, Any], path: str) -> None:
    answers = document["paths"][path]["post"]["responses"]["200"]["content"]
    assert list(answers) == ["text/event-stream"]
    kinds = {
        kind: Draft202012Validator(whole(document, schema))
        for kind, schema in answers["text/event-stream"]["x-event-data"].items()
    }
    seen = set()
    for n in (0, 2, 5):
        infer = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [n]}]}
        body = {"/v1": {"inputs": n}, "/v2": infer, "/in": {"n": n}}[path[:3]]
        Draft202012Validator(schema_of(document, path)).validate(body)
        for kind, data in events(rest, path, body):
            kinds[kind].validate(data)
            seen.add(kind)
    assert seen == {"message", "end", "error"}


def events(rest: str, path: str, body: Any) -> list[tuple[str, Any]]:
    reply = call(rest, "POST", path, body, Accept="text/event-stream")
    assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream")
    told = []
    for event in reply.body.decode().rstrip("\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in event.split("\n"))
        told.append((lines.get("event", "message"), json.loads(lines["data"])))
    return told


def test_the_largest_floats_are_within_what_the_document_says(rest: str, document: dict[str, Any]) -> None:
    largest = float(np.finfo("float32").max)
    reply = call(rest, "POST", "/v1/models/flat:predict", {"inputs": [largest, -largest]})
    assert b"3.4028235e38" in reply.body
    Draft202012Validator(answer_of(document, "/v1/models/flat:predict")).validate(reply.json())


@pytest.mark.parametrize("model", MODELS)
def test_what_the_schema_allows_is_accepted_and_what_breaks_it_is_refused(
    rest: str, document: dict[str, Any], model: str
) -> None:
    path = f"/v1/models/{model}:predict"
    allowed, answers = Draft202012Validator(schema_of(document, path)), Draft202012Validator(answer_of(document, path))
    chance = random.Random(model)
    refused = 0
    for number in range(REQUESTS):
        schema = chance.choice(schema_of(document, path)["anyOf"])
        rows = chance.randint(1, 3)
        body = one_shape(sample(schema, chance, rows), schema, random.Random(number), rows)
        allowed.validate(body)
        reply = call(rest, "POST", path, body)
        assert reply.status == 200, (body, reply.body)
        answers.validate(reply.json())
        wrong = broken(copy.deepcopy(body), chance)
        if not allowed.is_valid(wrong):
            refused += 1
            reply = call(rest, "POST", path, wrong)
            assert reply.status == 400, (wrong, reply.body)
    assert refused > REQUESTS / 4


def one_shape(body: Any, schema: Any, chance: random.Random, rows: int) -> Any:
    """Rows that may be a number or a list of one have to be of one kind, which a schema cannot say."""
    text = str(schema)
    if text.count("anyOf") and "'b64'" not in text:
        key = "instances" if "instances" in body else "inputs"
        flat = chance.random() < 0.5
        return {**body, key: [1.5 if flat else [1.5] for _ in range(rows)]}
    return body


@pytest.mark.parametrize("model", ["one", "several", "small"])
def test_infer_requests_of_the_open_inference_protocol_too(rest: str, document: dict[str, Any], model: str) -> None:
    path = f"/v2/models/{model}/infer"
    allowed = Draft202012Validator(schema_of(document, path))
    kinds = {"FP32": 1.5, "FP64": 2.5, "INT32": 7, "BOOL": True, "UINT8": 255}
    described = call(rest, "GET", f"/v2/models/{model}").json()["inputs"]
    shapes = [[2, *one["shape"][1:]] for one in described]
    tensors = [
        {**one, "shape": shape, "data": [kinds[one["datatype"]]] * int(np.prod(shape))}
        for one, shape in zip(described, shapes, strict=True)
    ]
    allowed.validate({"inputs": tensors})
    reply = call(rest, "POST", path, {"inputs": tensors})
    assert reply.status == 200, reply.body
    Draft202012Validator(answer_of(document, path)).validate(reply.json())
    first, *others = tensors
    wrongs: tuple[dict[str, Any], ...] = (
        {"inputs": others},
        {"inputs": [{**first, "name": "another"}, *others]},
        {"inputs": [{**first, "shape": [*first["shape"], 9]}, *others]},
        {"inputs": [{**first, "datatype": "BYTES"}, *others]},
        {"outputs": []},
    )
    for wrong in wrongs:
        assert not allowed.is_valid(wrong), wrong
        assert call(rest, "POST", path, wrong).status == 400, wrong
