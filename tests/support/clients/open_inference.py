"""Models that give back every type, and plain HTTP, for tests of the Open Inference Protocol."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any

import numpy as np
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import Draft

from tidegate_serving.contract.signature import DTYPES, Signature, TensorSpec

KINDS = tuple(name for name in DTYPES if not name.startswith("complex"))
FIELDS = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "int64",
    "uint8": "uint",
    "uint16": "uint",
    "uint32": "uint",
    "uint64": "uint64",
    "float32": "fp32",
    "float64": "fp64",
    "string": "bytes",
}
ECHO = """
class Model:
    def predict(self, inputs):
        return {name.replace("in_", "out_"): value for name, value in inputs.items()}
"""


def echoing(kinds: Iterable[str]) -> Draft:
    """A model that gives back what it gets, an input and an output of each type."""
    example = {f"in_{kind}": {"string": ["a", "b"], "bool": [False, True]}.get(kind, [0, 1]) for kind in kinds}
    inputs = tuple(TensorSpec(f"in_{kind}", kind, (-1, 2)) for kind in kinds)
    outputs = tuple(TensorSpec(f"out_{kind}", kind, (-1, 2)) for kind in kinds)
    return Draft(files={"model.py": ECHO}, signature=Signature(inputs, outputs), example=example)


def values(kind: str, rows: int = 3) -> np.ndarray[Any, Any]:
    """Rows of two that use the whole range of their type."""
    if kind == "string":
        texts = [b"", b"tide", "größe".encode(), b"a" * 300, b"\x00\x01", b"zero\x00inside"]
        return np.array(texts[: rows * 2], dtype=object).reshape(rows, 2)
    if kind == "bool":
        return np.array([True, False, False, True, True, True][: rows * 2]).reshape(rows, 2)
    if kind.startswith("float"):
        limits = np.finfo(kind)
        numbers = [0.5, -2.25, limits.max, limits.min, np.inf, -np.inf]
        return np.array(numbers[: rows * 2], dtype=kind).reshape(rows, 2)
    bounds = np.iinfo(kind)
    return np.array([0, 1, bounds.max, bounds.min, 7, 9][: rows * 2], dtype=kind).reshape(rows, 2)


def ask(engine: EngineProcess, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer; a body that is given is posted."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://{engine.addresses['rest']}{path}", data=data, headers=fields)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


def x(data: Any, shape: list[int] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "FP32", "shape": [len(data)] if shape is None else shape, "data": data, **more}
