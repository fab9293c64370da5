"""A warm-up file of what an engine logged: as TensorFlow and its Serving read it, and as an engine runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.clients import official_client
from tests.support.command import Command
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_operators.steps.publish import Publication
from tidegate_operators.steps.publish import publish as publish_step
from tidegate_operators.steps.warm_up_file import capture_warm_up, check_warm_up
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, NotFound
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.inference_log.reader import connect
from tidegate_serving.platforms.warm_up.records import read_records, write_records
from tidegate_serving.platforms.warm_up.runner import FILE
from tidegate_validation.golden_requests import Recording

KINDS = ("bool", "int8", "int64", "uint8", "uint32", "float16", "float32", "float64", "string")
RECORDER = """
class Model:
    def __init__(self, directory):
        self.asked = directory.parent / f"asked-{directory.name}.txt"

    def predict(self, inputs):
        with self.asked.open("a") as file:
            file.write(repr({name: value.tolist() for name, value in sorted(inputs.items())}) + "\\n")
        if (inputs["float32"] < 0).any():
            raise ValueError("negative")
        return {"y": inputs["float64"]}
"""
SIGNATURE = Signature(
    (*(TensorSpec(kind, kind) for kind in KINDS), TensorSpec("pairs", "float32", (-1, 2))),
    (TensorSpec("y", "float64"),),
)
WHOLE = Signature(
    (TensorSpec("float32", "float32", (-1, 2)),), (TensorSpec("y", "float32", (2,)),), first_axis=FirstAxis.FREE
)
FREE = RECORDER.replace('inputs["float64"]', 'inputs["float32"][0]')


def columns(*values: float) -> dict[str, Any]:
    """Inputs with a row for each value."""
    arrays: dict[str, Any] = {kind: np.array(values).astype(kind) for kind in KINDS[:-1]}
    arrays["string"] = np.array([f"s{value:g}".encode() for value in values], dtype=object)
    return {**arrays, "pairs": np.array([[value, -value] for value in values], np.float32)}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """It was asked five requests, of which one failed, and two of a model without an axis for rows."""
    folder: Path = tmp_path_factory.mktemp("captured")
    example = {name: array.tolist()[0] for name, array in columns(1).items()} | {"string": "s1"}
    typed = publish(folder / "r", "typed", 1, Draft(files={"model.py": RECORDER}, signature=SIGNATURE, example=example))
    free = publish(folder / "r", "free", 1, Draft(files={"model.py": FREE}, signature=WHOLE, example=None))
    values = {"roots": [folder / "r"], "allow_unverified": True, "log_path": folder / "log", "log_block_seconds": 0.05}
    with EngineProcess(folder / "engine", **values) as running:
        with running.control() as control:
            push_and_wait(control, typed)
            push_and_wait(control, free)
        with running.client() as client:
            for number, row in enumerate([(1,), (2, 3), (0, 1, 2), (4,)]):
                client.predict("typed", columns(*row), request_id=f"r{number}")
            with pytest.raises(Exception, match="negative"):
                client.predict("typed", {**columns(5), "float32": np.array([-1], np.float32)}, request_id="failed")
            for number in (1, 2):
                client.predict("free", {"float32": np.full((number, 2), number, np.float32)}, request_id=f"f{number}")

        def logged() -> int:
            with connect(folder / "log") as connection:
                return int(connection.execute("SELECT count(*) FROM log").fetchone()[0])

        eventually(lambda: logged() == 10)
        yield running


@pytest.fixture(scope="module")
def log(engine: EngineProcess) -> Path:
    return engine.folder.parent / "log"


def like(log: Path, name: str) -> Path:
    """The version's directory."""
    return log.parent / "r" / name / "1"


def test_the_file_is_read_by_tensorflow_and_the_official_messages(log: Path, tmp_path: Path) -> None:
    done = capture_warm_up(log, Recording("typed", 1), tmp_path / "deep/warm-up.tfrecord", like=like(log, "typed"))
    assert (done.requests, done.rows) == (4, 7)
    read = official_client.run_code(READ, str(done.path))
    asked = sorted(read, key=lambda one: one["inputs"]["float64"]["values"])
    assert [one["inputs"]["float64"]["values"] for one in asked] == [[0, 1, 2], [1], [2, 3], [4]]
    assert all((one["model"], one["version"], one["signature"]) == ("typed", 1, SERVING_DEFAULT) for one in asked)
    wanted = columns(2, 3)
    for name, found in asked[2]["inputs"].items():
        array = wanted[name]
        assert found["dtype"] == ("object" if name == "string" else str(array.dtype)), name
        expected = [value.decode() for value in array] if name == "string" else array.tolist()
        assert found["values"] == expected, name


READ = """
import json, sys
from tensorflow_serving.apis import prediction_log_pb2
import tensorflow as tf

found = []
for record in tf.data.TFRecordDataset(sys.argv[1]):
    log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
    request = log.predict_log.request
    arrays = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
    found.append({
        "model": request.model_spec.name,
        "version": request.model_spec.version.value,
        "signature": request.model_spec.signature_name,
        "inputs": {
            name: {
                "dtype": str(array.dtype),
                "values": [v.decode() for v in array] if array.dtype == object else array.tolist(),
            }
            for name, array in arrays.items()
        },
    })
print(json.dumps(found))
"""


def test_an_engine_runs_it_before_a_version_serves(engine: EngineProcess, log: Path, tmp_path: Path) -> None:
    wanted = Recording("typed", 1, ids=("r1", "r2"))
    file = capture_warm_up(log, wanted, tmp_path / "warm-up", like=like(log, "typed")).path
    draft = Draft(
        files={"model.py": RECORDER, FILE: file.read_bytes()},
        signature=SIGNATURE,
        example={name: array.tolist()[0] for name, array in columns(1).items()} | {"string": "s1"},
    )
    version = publish(engine.folder.parent / "r", "typed", 2, draft)
    with engine.control() as control:
        push_and_wait(control, version.with_name("1"), version)
    asked = (version.parent / "asked-2.txt").read_text().splitlines()
    assert len(asked) == 3, "its example, then the requests of the file"
    for line, row in zip(asked[1:], [(2, 3), (0, 1, 2)], strict=True):
        assert line == repr({name: array.tolist() for name, array in sorted(columns(*row).items())})


def test_a_request_without_an_axis_for_rows_is_written_whole(log: Path, tmp_path: Path) -> None:
    from tidegate_serving.contract.messages import message
    from tidegate_serving.tensor_proto import to_array

    done = capture_warm_up(log, Recording("free", 1), tmp_path / "free", like=like(log, "free"))
    logs = [message("tensorflow.serving.PredictionLog").FromString(record) for record in read_records(done.path)]
    arrays = [to_array(one.predict_log.request.inputs["float32"]) for one in logs]
    assert [array.tolist() for array in arrays] == [[[1, 1]], [[2, 2], [2, 2]]]


def test_without_a_manifest_inputs_have_the_logs_types(log: Path, tmp_path: Path) -> None:
    from tidegate_serving.contract.messages import message
    from tidegate_serving.tensor_proto import to_array

    done = capture_warm_up(log, Recording("typed", 1, ids=("r1",)), tmp_path / "typed")
    (record,) = read_records(done.path)
    sent = message("tensorflow.serving.PredictionLog").FromString(record).predict_log.request.inputs
    types = {name: str(to_array(sent[name]).dtype) for name in KINDS}
    assert types == {**{kind: kind for kind in KINDS}, "float16": "float32", "string": "object"}


def test_a_folder_gets_the_file_where_it_belongs_unless_it_is_published(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved_model"
    folder.mkdir()
    assert capture_warm_up(log, Recording("typed", 1, 2), folder).path == folder / FILE
    assert check_warm_up(folder / FILE) == 2
    published = publish(tmp_path / "models", "m", 1)
    with pytest.raises(AlreadyExists, match="a version never changes"):
        capture_warm_up(log, Recording("typed", 1), published)


def test_mistakes_are_told_and_nothing_is_written(log: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="at most 1000 requests"):
        capture_warm_up(log, Recording("typed", 1, 1001), tmp_path / "x")
    with pytest.raises(InvalidInput, match="'failed' is not among"):
        capture_warm_up(log, Recording("typed", 1, ids=("failed",)), tmp_path / "x")
    with pytest.raises(InvalidInput, match="no signature 'other': use one of serving_default"):
        capture_warm_up(log, Recording("typed", 1, signature="other"), tmp_path / "x", like=like(log, "typed"))
    with pytest.raises(NotFound, match="signature 'other'"):
        capture_warm_up(log, Recording("typed", 1, signature="other"), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_version_is_published_with_its_warm_up_file(log: Path, tmp_path: Path) -> None:
    file = capture_warm_up(log, Recording("typed", 1, 1), tmp_path / "warm-up").path
    model = tmp_path / "model.py"
    model.write_text(RECORDER)
    row = {name: array.tolist()[0] for name, array in columns(1).items()} | {"string": "s1"}
    one = Publication(
        [model], "typed", 7, "python", tmp_path / "m", signature={SERVING_DEFAULT: SIGNATURE}, example=row, warm_up=file
    )
    directory = publish_step(one).directory
    assert (directory / FILE).read_bytes() == file.read_bytes()
    write_records(tmp_path / "many", [next(read_records(file))] * 1001)
    for given, why in (
        (tmp_path / "gone", "is missing"),
        (tmp_path / "many", "holds 1001 requests"),
        (model, "damaged"),
    ):
        with pytest.raises((NotFound, InvalidInput), match=why):
            publish_step(Publication(**{**_fields(one), "version": 8, "warm_up": given}))
    assert not directory.with_name("8").exists()


def _fields(one: Publication) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def test_the_command_says_what_it_captured(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tidegate = Command(monkeypatch, capsys)
    out = tmp_path / "warm-up.tfrecord"
    done = tidegate("warm-up", "capture", "typed", "--version", "1", "--log", log, "--requests", "3", "--out", out)
    assert done.stdout.startswith("captured 3 requests ("), done.stderr
    assert check_warm_up(out) == 3
    assert tidegate("warm-up", "capture", "gone", "--version", "1", "--log", log, "--out", out).returncode == 2
