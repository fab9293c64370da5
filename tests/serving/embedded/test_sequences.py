"""A split keeps a sequence on one version however its id comes, and divides a model without sequences as ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest
import requests
from tests.support.clients.rest import call
from tests.support.models.versions import Draft, publish

from tidegate import Engine
from tidegate_serving.client import Client
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.desired_state import Split
from tidegate_serving.contract.signature import SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START, Signature
from tidegate_serving.contract.signature import TensorSpec as Spec

SUMS = """
class Model:
    def predict(self, inputs, sequence):
        sequence.state["sum"] = sequence.state.get("sum", 0) + inputs["x"]
        return {"y": sequence.state["sum"]}
"""
X, Y = (Spec(name, "int64", (1, 1)) for name in "xy")
SIGNATURE = {"inputs": [X.to_dict()], "outputs": [Y.to_dict()], "first_axis": "free", "sequences": True}
BOTH = Split({1: 0.5, 2: 0.5})
Ask = Callable[[Engine, dict[str, Any]], Any]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    example = {"x": [[1]], SEQUENCE_ID: "e", SEQUENCE_START: True, SEQUENCE_END: True}
    sums = Draft(files={"model.py": SUMS}, signature=Signature.from_dict(SIGNATURE), example=example)
    config = EngineConfig(
        rest_address="127.0.0.1:0", grpc_address="127.0.0.1:0", control_address="", allow_unverified=True
    )
    with Engine(replace(config, isolation="engine")) as made:
        for version in (1, 2):
            made.load(publish(tmp_path_factory.mktemp("r"), "sums", version, sums), keep=True)
            made.serve("half", lambda x: {"y": x / 2}, inputs={"x": "float32"}, keep=True)
        made.traffic.set_split("sums", BOTH)
        made.traffic.set_split("half", BOTH)
        yield made


def posted(engine: Engine, path: str, body: dict[str, Any]) -> tuple[int, str | None]:
    answer = call(str(engine.addresses.rest), "POST", path, body)
    return answer.status, answer.headers["x-tidegate-version"]


def parameters(engine: Engine, turn: dict[str, Any]) -> tuple[int, str | None]:
    x = {"name": "x", "datatype": "INT64", "shape": [1, 1], "data": [1]}
    return posted(engine, "/v2/models/sums/infer", {"parameters": turn, "inputs": [x]})


def inputs(engine: Engine, turn: dict[str, Any]) -> tuple[int, str | None]:
    kinds = {"x": "INT64", SEQUENCE_ID: "BYTES", SEQUENCE_START: "BOOL"}
    given = [
        {"name": name, "datatype": kinds[name], "shape": [1, 1] if name == "x" else [], "data": [value]}
        for name, value in {"x": 1, **turn}.items()
    ]
    return posted(engine, "/v2/models/sums/infer", {"inputs": given})


def predict(engine: Engine, turn: dict[str, Any]) -> tuple[int, str | None]:
    return posted(engine, "/v1/models/sums:predict", {"inputs": {"x": [[1]], **turn}})


def plain(engine: Engine, turn: dict[str, Any]) -> tuple[int, str | None]:
    return posted(engine, "/inference/sums", {"x": [[1]], **turn})


def packed(engine: Engine, turn: dict[str, Any]) -> tuple[int, str | None]:
    url, kind = f"http://{engine.addresses.rest}/inference/sums", {"Content-Type": "application/msgpack"}
    answer = requests.post(url, msgpack.packb({"x": [[1]], **turn}), headers=kind, timeout=30)
    return answer.status_code, answer.headers["x-tidegate-version"]


def generated(engine: Engine, turn: dict[str, Any]) -> tuple[int, str | None]:
    return posted(engine, "/v2/models/sums/generate", {"x": [[1]], **turn})


def over_grpc(engine: Engine, turn: dict[str, Any]) -> tuple[int, str | None]:
    given = {name: np.array(value.encode() if isinstance(value, str) else value) for name, value in turn.items()}
    with Client(str(engine.addresses.grpc)) as client:
        return 200, str(client.predict("sums", {"x": np.array([[1]]), **given}).version)


def in_process(engine: Engine, turn: dict[str, Any]) -> tuple[int, str | None]:
    return 200, str(engine.predict("sums", {"x": [[1]], **turn}).version)


@pytest.mark.parametrize("ask", [parameters, inputs, predict, plain, packed, generated, over_grpc, in_process])
def test_a_split_keeps_a_sequence_on_one_version_however_its_id_comes(engine: Engine, ask: Ask) -> None:
    drawn = set()
    for number in range(12):
        turns = [{SEQUENCE_ID: f"{ask.__name__}-{number}", SEQUENCE_START: turn == 0} for turn in range(4)]
        came = [ask(engine, turn) for turn in turns]
        assert [status for status, _ in came] == [200] * 4
        assert len({version for _, version in came}) == 1
        drawn.add(came[0])
    assert drawn == {(200, "1"), (200, "2")}


def test_a_split_of_a_model_without_sequences_takes_no_notice_of_an_id(engine: Engine) -> None:
    x = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
    body = {"parameters": {SEQUENCE_ID: "only", SEQUENCE_START: True}, "inputs": [x]}
    assert {posted(engine, "/v2/models/half/infer", body) for _ in range(40)} == {(200, "1"), (200, "2")}
