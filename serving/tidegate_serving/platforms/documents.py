"""Functions of documents: one takes what a pydantic model describes and returns another, or lists of both for a batch.

In a batch each request is one JSON document in a row of strings. Those that do not fit are answered with what is wrong
with them, and the function gets the others. pydantic itself is not imported here: whoever annotates with it has it.
"""

from __future__ import annotations

import inspect
import json
import math
import reprlib
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, TidegateError
from tidegate_serving.contract.signature import DocumentSchema, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.loader import Answer

REQUEST = "request"
RESPONSE = "response"
_MOST_ERRORS = 50
_MOST_CHARACTERS = 100
_short_repr = reprlib.Repr()


class DocumentFunction:
    """A function with the types that its annotations name."""

    def __init__(self, function: Callable[..., Any], request: Any, response: Any, takes_batch: bool) -> None:
        from pydantic import TypeAdapter

        self._function = function
        self._takes_batch = takes_batch
        self._request: Any = TypeAdapter(request)
        self._response: Any = TypeAdapter(response)

    def signature(self) -> Signature:
        """One document in, one out."""
        schema = DocumentSchema(
            self._request.json_schema(mode="validation"), self._response.json_schema(mode="serialization")
        )
        return Signature((TensorSpec(REQUEST, "string"),), (TensorSpec(RESPONSE, "string"),), schema=schema)

    def answer(self, inputs: Mapping[str, Array]) -> Answer:
        """The documents that the function returns, and for each row without one what is wrong."""
        from pydantic import ValidationError

        (texts,) = inputs.values()
        errors: dict[int, TidegateError] = {}
        requests: dict[int, Any] = {}
        for row, text in enumerate(texts):
            try:
                requests[row] = self._request.validate_json(text)
            except ValidationError as error:
                errors[row] = _does_not_fit(error)
        documents = np.full(len(texts), b"", dtype=object)
        for row, result in zip(requests, self._results(list(requests.values())), strict=True):
            try:
                documents[row] = self._written(result)
            except ModelFailed as error:
                errors[row] = error
        return Answer({RESPONSE: documents}, errors)

    def _results(self, requests: Sequence[Any]) -> Sequence[Any]:
        if not self._takes_batch:
            return [self._function(request) for request in requests]
        if not requests:
            return []
        results = self._function(requests)
        if not isinstance(results, list | tuple) or len(results) != len(requests):
            found = f"{len(results)} results" if isinstance(results, list | tuple) else type(results).__name__
            raise ModelFailed(f"the model returned {found} for {len(requests)} requests: return a list of as many")
        return results

    def _written(self, result: Any) -> bytes:
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError

        try:
            written: bytes = self._response.dump_json(self._response.validate_python(result), by_alias=True)
        except (ValidationError, PydanticSerializationError) as error:
            raise ModelFailed(f"the model returned what does not fit its schema: {words_of(error)}") from error
        return written


def documents_of(function: Callable[..., Any]) -> DocumentFunction | None:
    """The function with its types, where its only annotated parameter is a pydantic model or a list of one.

    A list means that it takes a whole batch and returns a list as long. InvalidInput for a generator of documents.
    """
    if "pydantic" not in sys.modules:
        return None
    hints = _hints(function)
    response = hints.pop("return", Any)
    if len(hints) != 1:
        return None
    (request,) = hints.values()
    takes_batch = typing.get_origin(request) is list
    if takes_batch:
        (request,) = typing.get_args(request)
        response = _element(response)
    if not _is_model(request):
        return None
    if inspect.isgeneratorfunction(function):
        raise InvalidInput(
            f"{function!r:.80} is a generator of documents, which cannot be streamed: return them, or yield tensors"
        )
    return DocumentFunction(function, request, response, takes_batch)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """None for annotations that cannot be resolved: such a function has to say what it takes in another way."""
    annotated = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(annotated)
    except (NameError, TypeError, AttributeError):
        return {}


def _is_model(kind: Any) -> bool:
    from pydantic import BaseModel

    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _element(response: Any) -> Any:
    """Of the list that a function of batches returns."""
    return typing.get_args(response)[0] if typing.get_args(response) else Any


def _does_not_fit(error: Any) -> InvalidInput:
    found = error.errors(include_url=False, include_context=False)
    told = [_told(one) for one in found[:_MOST_ERRORS]]
    place = ".".join(str(step) for step in told[0]["loc"]) or "the document"
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return InvalidInput(
        f"the request does not fit its schema: {place}: {told[0]['msg']}{more}", json.dumps(told, ensure_ascii=False)
    )


def _told(error: Mapping[str, Any]) -> dict[str, Any]:
    place = [step if isinstance(step, int) else _cut(str(step)) for step in error["loc"]]
    return {"type": error["type"], "loc": place, "msg": _cut(error["msg"]), "input": _shown(error["input"])}


def _shown(value: Any) -> Any:
    """What JSON can say of a value within a line."""
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int) and abs(value) < 1 << 53:
        return value
    return _cut(value if isinstance(value, str) else _short_repr.repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
