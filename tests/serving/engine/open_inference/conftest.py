"""An engine with models of every type and form, for modules that have none of their own, and Triton's clients of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients.open_inference import FIELDS, KINDS, echoing
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec

TWICE = """
import numpy as np

class Model:
    def predict(self, inputs, signature="serving_default"):
        return {"sum": inputs["a"] + inputs["b"], "product": inputs["a"] * inputs["b"]}
"""
BYTES = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": np.array([b"\\xff\\xfe"] * len(inputs["x"]), dtype=object)}
"""
WHOLE = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"].sum(axis=0)}
"""
PAIR = Signature(
    (TensorSpec("a", "float32"), TensorSpec("b", "float32")),
    (TensorSpec("sum", "float32"), TensorSpec("product", "float32")),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("open-inference")
    root = folder / "r"
    m = [publish(root, "m", number, adding(number * 100)) for number in (1, 2)]
    kinds = publish(root, "kinds", 1, echoing(KINDS))
    typed = publish(root, "typed", 1, echoing(list(FIELDS)))
    named = Draft(files={"model.py": TWICE}, signatures={"pair": PAIR}, example={"a": 1.0, "b": 2.0})
    pair = publish(root, "pair", 7, named)
    raw = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "string"),))
    fixed = Signature((TensorSpec("x", "float32", (2, -1)),), (TensorSpec("y", "float32"),), first_axis=FirstAxis.FREE)
    whole = publish(root, "whole", 1, Draft(files={"model.py": WHOLE}, signature=fixed, example={"x": [[1.0], [2.0]]}))
    raw_bytes = publish(root, "raw", 1, Draft(files={"model.py": BYTES}, signature=raw))
    with EngineProcess(folder / "engine", roots=[root], allow_unverified=True) as running:
        with running.control() as control:
            push_and_wait(control, *m, labels={"stable": 1, "canary": 2})
            for directory in (kinds, pair, raw_bytes, typed, whole):
                push_and_wait(control, directory)
        yield running


@pytest.fixture(scope="module")
def grpc_client(engine: EngineProcess) -> Iterator[Any]:
    client = over_grpc.InferenceServerClient(engine.addresses["grpc"])
    yield client
    client.close()


@pytest.fixture(scope="module")
def http_client(engine: EngineProcess) -> Iterator[Any]:
    client = over_http.InferenceServerClient(engine.addresses["rest"])
    yield client
    client.close()


@pytest.fixture(scope="module", params=[over_grpc, over_http], ids=["grpc", "http"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def client(engine: EngineProcess, library: Any) -> Iterator[Any]:
    with library.InferenceServerClient(engine.addresses["grpc" if library is over_grpc else "rest"]) as made:
        yield made
