"""What TensorFlow Serving's REST endpoint says of requests that are wrong: status and text, of SavedModels."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.clients import rest
from tests.support.models.zoo_server import Zoo

ROW = {"instances": [1.0]}
PATHS = [
    ("GET", "/v1/models/kinds:predict", None, "Malformed request: GET /v1/models/kinds:predict"),
    ("PUT", "/v1/models/kinds:predict", ROW, "Malformed request: PUT /v1/models/kinds:predict"),
    ("POST", "/v1/models/kinds:guess", ROW, "Malformed request: POST /v1/models/kinds:guess"),
    ("POST", "/v1/models/kinds", ROW, "Malformed request: POST /v1/models/kinds"),
    ("POST", "/v1/models/kinds/versions/x:predict", ROW, "Malformed request: POST /v1/models/kinds/versions/x:predict"),
    ("POST", "/v1/models/kinds/1:predict", ROW, "Malformed request: POST /v1/models/kinds/1:predict"),
    ("GET", "/v1/foo", None, "Malformed request: GET /v1/foo"),
    ("GET", "/v1/models", None, "Missing model name in request."),
    ("GET", "/v1/models/kinds/versions/99999999999999999999", None, "Failed to convert version: 9999"),
    ("POST", "/v1/models/kinds/labels/none:predict", ROW, "Unrecognized servable version label: none"),
]
ABSENT = [
    ("POST", "/v1/models/nobody:predict", ROW, "Servable not found for request: Latest(nobody)"),
    ("POST", "/v1/models/kinds/versions/9:predict", ROW, "Servable not found for request: Specific(kinds, 9)"),
    ("GET", "/v1/models/nobody", None, "Could not find any versions of model nobody"),
    ("GET", "/v1/models/kinds/versions/9", None, "Could not find version 9 of model kinds"),
    ("GET", "/v1/models/nobody/versions/9", None, "Could not find version 9 of model nobody"),
    ("GET", "/v1/models/nobody/metadata", None, "Servable not found for request: Latest(nobody)"),
    ("GET", "/elsewhere", None, "/elsewhere"),
]
DOCUMENTS = [
    (b"", "JSON Parse error: The document is empty"),
    (b"{", "JSON Parse error: "),
    (b'{"instances": ["a"', "JSON Parse error: Missing a comma or ] after an array element. at offset: 18"),
    (b'{"instances": [1]', "JSON Parse error: Missing a comma or } after an object member. at offset: 17"),
    (b"[1]", "JSON Value: [1] Is not object"),
    (b"{}", "Missing 'inputs' or 'instances' key"),
    (b'{"instances": 1}', "Expecting 'instances' to be an list/array"),
    (b'{"instances": []}', "No values in 'instances' array"),
    (b'{"instances": [1], "inputs": [1]}', "expecting only one of 'inputs' or 'instances'"),
    (b'{"instances": [1], "signature_name": 3}', "'signature_name' key must be a string value."),
    (b'{"instances": [1], "signature_name": "none"}', 'Serving signature name: "none" not found in signature def'),
]
VALUES: list[tuple[str, dict[str, Any], str]] = [
    ("doubled", {"instances": [["a", 1]]}, "not of expected type: float"),
    ("doubled", {"instances": [[True, 1]]}, "not of expected type: float"),
    ("doubled", {"instances": [[None, 1]]}, "not of expected type: float"),
    ("doubled", {"instances": [[1, 2], [1]]}, "Expecting tensor size: 2 but got: 1"),
    ("doubled", {"instances": [[1, 2], 3]}, "Expecting tensor size: 2 but got: 1"),
    ("doubled", {"instances": [[1, [2]]]}, "Encountered list at unexpected level: 1 expected < 1"),
    ("doubled", {"inputs": [[1, 2], [1]]}, "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
    ("doubled", {"inputs": {"z": [[1, 2]]}}, "Missing named input: x in 'inputs' object."),
    ("doubled", {"instances": [{"z": [1, 2]}]}, "does not have named input: z"),
    ("doubled", {"instances": [{"x": [1, 2], "z": 1}]}, "does not have named input: z"),
    ("doubled", {"instances": [{"x": [1, 2]}, [1, 2]]}, "Expecting object but got list at item 1 of input list"),
    ("doubled", {"instances": [[1, 2], {"x": [1, 2]}]}, "Expecting value/list but got object at item 1 of input list"),
    ("scores", {"instances": [{"q": [1, 2, 3]}]}, "keys must be equal to: d,q"),
    ("scores", {"instances": [[1, 2, 3]]}, "instances is a plain list, but expecting list of objects"),
    ("scores", {"inputs": [[1, 2, 3]]}, "inputs is a plain value/list, but expecting an object"),
    ("added", {"inputs": {"a": 1.5, "b": 1}}, "not of expected type: int64"),
    ("added", {"inputs": {"a": 2**63, "b": 1}}, "not of expected type: int64"),
    ("looked_up", {"instances": [1]}, "not of expected type: string"),
    ("looked_up", {"instances": [{"b64": "***"}]}, "Unable to base64 decode"),
    ("greeting", {"inputs": {"name": {"b64": "/w==", "more": 1}}}, "not formatted correctly for base64 data"),
]


def ask(zoo: Zoo, method: str, path: str, body: Any = None) -> tuple[int, str]:
    reply = rest.call(zoo.server.addresses["rest"], method, path, body)
    assert reply.headers["content-type"] == "application/json"
    found = reply.json()
    assert list(found) == ["error"]
    return reply.status, found["error"]


@pytest.mark.parametrize(("method", "path", "body", "text"), PATHS)
def test_a_path_that_means_nothing(zoo: Zoo, method: str, path: str, body: Any, text: str) -> None:
    status, said = ask(zoo, method, path, body)
    assert (status, text in said) == (400, True), said


@pytest.mark.parametrize(("method", "path", "body", "text"), ABSENT)
def test_what_is_not_there(zoo: Zoo, method: str, path: str, body: Any, text: str) -> None:
    status, said = ask(zoo, method, path, body)
    assert (status, text in said) == (404, True), said


@pytest.mark.parametrize(("body", "text"), DOCUMENTS)
def test_a_document_of_another_form(zoo: Zoo, body: bytes, text: str) -> None:
    status, said = ask(zoo, "POST", "/v1/models/session:predict", body)
    assert (status, text in said) == (400, True), said


@pytest.mark.parametrize(("signature", "body", "text"), VALUES)
def test_values_that_do_not_fit(zoo: Zoo, signature: str, body: dict[str, Any], text: str) -> None:
    status, said = ask(zoo, "POST", "/v1/models/zoo:predict", {**body, "signature_name": signature})
    assert (status, text in said) == (400, True), said
