"""Logs of other servers as tables, and their skew: KServe's CloudEvents, TensorFlow Serving's PredictionLogs."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.command import Command
from tests.validation import world

import tidegate
from tidegate_operators.steps.foreign_logs import as_rows
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.messages import message
from tidegate_serving.platforms.warm_up.records import write_records
from tidegate_serving.tensor_proto import fill


def event(kind: str, name: str, data: Any, **more: Any) -> dict[str, Any]:
    """As KServe's agent sends it, in CloudEvents' structured mode."""
    return {
        "specversion": "1.0",
        "type": f"org.kubeflow.serving.inference.{kind}",
        "source": "http://localhost:9081/",
        "id": name,
        "time": "2026-01-30T10:45:00.123456789Z",
        "inferenceservicename": "parcels",
        "data": data,
        **more,
    }


def lines(path: Path, events: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(json.dumps(one) for one in events) + "\n")
    return str(path)


def rows(data: Any) -> list[dict[str, Any]]:
    table = as_rows(data)
    assert table is not None
    return list(table.to_pylist())


def test_version_1_requests_meet_their_answers_in_any_order_and_once(tmp_path: Path) -> None:
    log = lines(
        tmp_path / "events.jsonl",
        [
            event("response", "b", {"predictions": [0.25]}),
            event("request", "a", {"instances": [[6.8, 2.8], [6.0, 3.4]]}),
            event("request", "b", {"instances": [[1.0, 2.0]]}),
            event("response", "a", {"predictions": [1, 0]}),
            event("request", "a", {"instances": [[6.8, 2.8], [6.0, 3.4]]}),
            event("request", "c", {"instances": [[9.0, 9.5]]}),
        ],
    )
    moment = datetime(2026, 1, 30, 10, 45, 0, 123456, UTC)
    assert rows(log) == [
        {"request_id": "a", "time": moment, "0": 6.8, "1": 2.8, "prediction": 1.0},
        {"request_id": "a", "time": moment, "0": 6.0, "1": 3.4, "prediction": 0.0},
        {"request_id": "b", "time": moment, "0": 1.0, "1": 2.0, "prediction": 0.25},
        {"request_id": "c", "time": moment, "0": 9.0, "1": 9.5, "prediction": None},
    ]


def test_version_1_names_and_text_in_base64_are_read(tmp_path: Path) -> None:
    asked = {
        "instances": [{"weight": 4.0, "depot": "east", "tags": ["x"]}, {"weight": 5.0, "depot": None, "tags": ["y"]}]
    }
    sent = base64.b64encode(json.dumps(asked).encode()).decode()
    events = [
        event("request", "a", None, data_base64=sent),
        event("response", "a", json.dumps({"predictions": [[1, 2], [3, 4]]})),
    ]
    (tmp_path / "events.json").write_text(json.dumps(events))
    found = rows(tmp_path / "events.json")
    assert [one["weight"] for one in found] == [4.0, 5.0]
    assert [one["depot"] for one in found] == ["east", None]
    assert [one["tags"] for one in found] == ["x", "y"]
    assert [(one["prediction.0"], one["prediction.1"]) for one in found] == [(1, 2), (3, 4)]


def test_version_2_tensors_become_columns(tmp_path: Path) -> None:
    asked = [
        {"name": "x", "shape": [2, 1], "datatype": "FP32", "data": [1.5, 2.5]},
        {"name": "y", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]},
    ]
    given = [{"name": "x", "shape": [2], "datatype": "FP32", "data": [0.1, 0.2]}]
    log = lines(
        tmp_path / "e.ndjson", [event("request", "a", {"inputs": asked}), event("response", "a", {"outputs": given})]
    )
    first, second = rows(log)
    assert {name: first[name] for name in ("x", "y.0", "y.1", "out.x")} == {"x": 1.5, "y.0": 1, "y.1": 2, "out.x": 0.1}
    assert second["out.x"] == 0.2


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (event("request", "a", {"image": 1}), r"event 2 .* it has no instances or inputs"),
        (event("request", "a", "{"), "event 2 .* cannot be read"),
        (event("request", "a", {"inputs": [{"name": "x", "shape": [2], "data": [1]}]}), "event 2"),
        (event("request", "a", {"instances": [["text", 1]]}), "'0' .* several kinds"),
        (event("request", "a", {"instances": [{"other": 1 << 70}]}), "'other' .* beyond 64 bits"),
        (event("request", "a", "[" * 100_000), "event 2 .* cannot be read: maximum recursion"),
    ],
)
def test_events_that_make_no_rows_are_named(tmp_path: Path, bad: dict[str, Any], words: str) -> None:
    log = lines(tmp_path / "e.jsonl", [event("request", "ok", {"instances": [[1.0, 2.0]]}), bad])
    with pytest.raises(InvalidInput, match=words):
        as_rows(log)


def test_lines_that_nest_without_end_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text(json.dumps(event("request", "ok", {"instances": [1.0]})) + "\n" + "[" * 100_000 + "\n")
    with pytest.raises(InvalidInput, match="is not JSON, or lines of it: maximum recursion"):
        as_rows(path)


def test_a_tensor_without_elements_makes_no_rows_however_many_its_client_says(tmp_path: Path) -> None:
    none = {"name": "x", "shape": [1 << 16, 0], "datatype": "FP32", "data": []}
    one = {"name": "y", "shape": [1], "datatype": "FP32", "data": [1.5]}
    bomb = event("request", "a", {"inputs": [none]})
    log = lines(tmp_path / "e.jsonl", [bomb, event("request", "b", {"inputs": [none, one]})])
    assert [(row["request_id"], row["y"]) for row in rows(log)] == [("b", 1.5)]


def test_other_files_are_no_foreign_logs(tmp_path: Path) -> None:
    (tmp_path / "plain.jsonl").write_text('{"weight": 1}\n')
    assert as_rows(tmp_path / "plain.jsonl") is None
    assert as_rows(tmp_path / "missing.jsonl") is None
    assert as_rows(world.parcels(3, seed=1)) is None


def predict_log(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any] | None, depot: list[str]) -> Any:
    log = message("tensorflow.serving.PredictionLog")()
    fill(log.predict_log.request.inputs["x"], x)
    fill(log.predict_log.request.inputs["depot"], np.array([one.encode() for one in depot], dtype=object))
    if y is not None:
        fill(log.predict_log.response.outputs["scores"], y)
    return log


def classify_log() -> Any:
    log = message("tensorflow.serving.PredictionLog")()
    sent = log.classify_log.request.input.example_list_with_context
    sent.context.features.feature["depot"].bytes_list.value.append(b"east")
    for weight in (1.5, 2.5):
        features = sent.examples.add().features.feature
        features["weight"].float_list.value.append(weight)
        features["sizes"].int64_list.value.extend([1, 2])
        classes = log.classify_log.response.result.classifications.add().classes
        classes.add(label="late", score=weight / 10)
    return log


def test_prediction_logs_are_read(tmp_path: Path) -> None:
    x = np.array([[1.0], [2.0]], np.float32)
    logs = [
        predict_log(x, np.array([[0.5, 0.5], [0.25, 0.75]], np.float32), ["east", "west"]),
        predict_log(x[:1], None, ["é"]),
    ]
    write_records(tmp_path / "log.tfrecord-00000-of-00002", [one.SerializeToString() for one in logs])
    write_records(tmp_path / "log.tfrecord-00001-of-00002", [logs[1].SerializeToString()])
    found = rows(str(tmp_path / "log.tfrecord-*"))
    assert [one["x"] for one in found] == [1.0, 2.0, 1.0, 1.0]
    assert [one["depot"] for one in found] == ["east", "west", "é", "é"]
    assert [one["scores.1"] for one in found] == [0.5, 0.75, None, None]
    assert found[1]["request_id"] == "log.tfrecord-00000-of-00002:1"


def test_classifications_of_examples_are_read(tmp_path: Path) -> None:
    write_records(tmp_path / "log.tfrecord", [classify_log().SerializeToString()])
    first, second = rows(tmp_path / "log.tfrecord")
    assert (first["weight"], first["depot"], first["sizes.1"]) == (1.5, "east", 2)
    assert second["score.late"] == pytest.approx(0.25)


def test_damaged_records_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.tfrecord"
    write_records(path, [classify_log().SerializeToString()] * 2)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InvalidInput, match=r"cannot be read after . records: .*record 1 is damaged"):
        as_rows(path)
    write_records(path, [b"\xff\xff"])
    with pytest.raises(InvalidInput, match="is no PredictionLog"):
        as_rows(path)


@pytest.fixture
def tidegate_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


def test_skew_of_kserves_events_is_found_by_the_names_of_training(tidegate_command: Command, tmp_path: Path) -> None:
    training = world.parcels(12_000, seed=1, days=40).select(["weight", "size", "depot"])
    pq.write_table(training, tmp_path / "training.parquet")
    now = world.scaled(world.parcels(2100, seed=2, days=7), "size", 1.609344)
    asked = zip(now["weight"].to_pylist(), now["size"].to_pylist(), now["depot"].to_pylist(), strict=True)
    lines(tmp_path / "e.jsonl", [event("request", f"r{n}", {"instances": [list(one)]}) for n, one in enumerate(asked)])
    names = {"weight": "0", "size": "1", "depot": "2"}
    found = tidegate.skew("training.parquet", "e.jsonl", columns=names).report
    assert [one.subject for one in found.findings if one.outcome.value == "FAIL"] == ["size"]
    assert {one.subject for one in found.findings} == set(names), "the request's id and time are no features"
    options = [part for name, other in names.items() for part in ("--column", f"{name}={other}")]
    done = tidegate_command("skew", "training.parquet", "e.jsonl", *options)
    assert done.returncode == 1
    assert "kilometres against miles" in done.stdout
    assert "is not NAME=OTHER" in tidegate_command("skew", "training.parquet", "e.jsonl", "--column", "size").stderr


def test_columns_of_any_table_may_be_called_otherwise() -> None:
    training = world.parcels(3000, seed=1).select(["weight", "size"])
    today = world.parcels(1000, seed=2).select(["weight", "size"]).rename_columns(["w", "size"])
    assert {one.subject for one in tidegate.skew(training, today, columns={"weight": "w"}).report.findings} >= {
        "weight",
        "size",
    }
    with pytest.raises(InvalidInput, match="no column 'kg'"):
        tidegate.skew(training, pa.table({"size": [1.0]}), columns={"weight": "kg"})
