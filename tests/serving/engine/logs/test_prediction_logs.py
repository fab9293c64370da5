"""The log as TensorFlow Serving's PredictionLogs: what was answered, read by TensorFlow and the official messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.clients import official_client
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.control_client import Shadow
from tidegate_serving.inference_log.reader import connect

LISTS = Signature((TensorSpec("x", "float32", (-1, -1)), TensorSpec("s", "string")), (TensorSpec("y", "float16"),))
FREE = Signature((TensorSpec("x", "int64", (-1, 2)),), (TensorSpec("y", "int64", (2,)),), first_axis=FirstAxis.FREE)
SUM = """
import numpy as np

class Model:
    def predict(self, inputs):
        if (inputs["x"] < 0).any():
            raise ValueError("below zero")
        return {"y": inputs["x"].sum(axis=1).astype(np.float16)}
"""
TOTAL = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"].sum(axis=0)}
"""
READ = """
import json, sys
from tensorflow_serving.apis import prediction_log_pb2
import tensorflow as tf

def plain(tensor):
    array = tf.make_ndarray(tensor)
    values = [one.decode() for one in array.ravel()] if array.dtype == object else array.tolist()
    return [str(array.dtype), list(array.shape), values]

found = []
for record in tf.data.TFRecordDataset(sys.argv[1:]):
    log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
    request, response = log.predict_log.request, log.predict_log.response
    specs = (log.log_metadata.model_spec, request.model_spec, response.model_spec)
    found.append({
        "specs": [[spec.name, spec.version.value, spec.signature_name] for spec in specs],
        "came": log.log_metadata.timestamp_secs,
        "inputs": {name: plain(tensor) for name, tensor in request.inputs.items()},
        "outputs": {name: plain(tensor) for name, tensor in response.outputs.items()},
    })
print(json.dumps(found))
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    values = {"roots": [tmp_path / "r"], "allow_unverified": True, "log_path": tmp_path / "log"}
    more = {"prediction_log_path": tmp_path / "logs", "log_block_seconds": 0.05}
    with EngineProcess(tmp_path / "engine", **values, **more) as running:
        yield running


def records(root: Path, wanted: int) -> list[dict[str, Any]]:
    """All records once the Parquet log has so many rows: a block is in both before it counts as written."""

    def rows() -> int:
        with connect(root / "log") as connection:
            return int(connection.execute("SELECT count(*) FROM log").fetchone()[0])

    eventually(lambda: rows() == wanted)
    now = datetime.now(UTC)
    days = {f"date={day:%Y-%m-%d}" for day in (now - timedelta(minutes=10), now)}
    files = sorted((root / "logs").glob("model=*/version=*/date=*/*.tfrecord"))
    assert {file.parent.name for file in files} <= days
    found: list[dict[str, Any]] = official_client.run_code(READ, *map(str, files))
    return sorted(found, key=lambda one: (one["specs"], str(one["inputs"])))


def test_answered_requests_are_written_as_they_were_asked(tmp_path: Path, engine: EngineProcess) -> None:
    versions = [
        publish(tmp_path / "r", "lists", number, Draft(files={"model.py": SUM}, signature=LISTS, example=EXAMPLE))
        for number in (1, 2)
    ]
    free = publish(tmp_path / "r", "free", 3, Draft(files={"model.py": TOTAL}, signature=FREE, example={"x": [[1, 2]]}))
    with engine.control() as control:
        push_and_wait(control, *versions, labels={"stable": 1}, shadow=Shadow(2, 1.0))
        push_and_wait(control, free)
    with engine.client() as client:
        client.predict("lists", {"x": np.array([[1, 2], [3, 4]], np.float32), "s": np.array([b"a", b"b"], object)})
        client.predict("lists", {"x": np.array([[1, 2, 3]], np.float32), "s": np.array([b"c"], object)})
        with pytest.raises(Exception, match="below zero"):
            client.predict("lists", {"x": np.array([[-1]], np.float32), "s": np.array([b"d"], object)})
        client.predict("free", {"x": np.array([[1, 2], [3, 4], [5, 6]], np.int64)})
    one, other, third = records(tmp_path, 9)
    assert one["specs"] == [["free", 3, "serving_default"]] * 3
    assert one["inputs"] == {"x": ["int64", [3, 2], [[1, 2], [3, 4], [5, 6]]]}
    assert one["outputs"] == {"y": ["int64", [2], [9, 12]]}
    assert {tuple(spec) for record in (other, third) for spec in record["specs"]} == {("lists", 1, "serving_default")}
    assert third["inputs"]["x"] == ["float32", [2, 2], [[1, 2], [3, 4]]]
    assert third["inputs"]["s"] == ["object", [2], ["a", "b"]]
    assert third["outputs"] == {"y": ["float16", [2], [3, 7]]}
    assert other["inputs"]["x"] == ["float32", [1, 3], [[1, 2, 3]]]
    assert other["outputs"] == {"y": ["float16", [1], [6]]}
    now = datetime.now(UTC).timestamp()
    assert all(now - 300 < record["came"] <= now for record in (one, other, third))


EXAMPLE = {"x": [1.0], "s": "a"}


def test_it_is_written_beside_the_log_alone(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="prediction_log_path is set without log_path"):
        EngineConfig(prediction_log_path=tmp_path)
