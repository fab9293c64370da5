"""Logs of other servers as tables, and their skew: KServe's CloudEvents, TensorFlow Serving's PredictionLogs."""

from __future__ import annotations

import base64
import codecs
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
from tidegate_operators.steps.foreign_logs import as_rows, is_foreign_log
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.messages import message
from tidegate_serving.platforms.warm_up.records import write_records
from tidegate_serving.tensor_proto import fill
from tidegate_validation.skew import LeftOut


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
    return list(as_rows(data)[0].to_pylist())


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


def test_requests_meet_their_answers_in_another_file_and_count_once(tmp_path: Path) -> None:
    asked = [event("request", f"r{n}", {"instances": [{"x": n}]}) for n in range(3)]
    lines(tmp_path / "a.jsonl", asked)
    lines(
        tmp_path / "b.jsonl", [*asked[:2], *(event("response", f"r{n}", {"predictions": [{"p": n}]}) for n in (0, 2))]
    )
    table, left_out = as_rows(str(tmp_path / "*.jsonl"))
    assert (table["x"].to_pylist(), table["p"].to_pylist()) == ([0, 1, 2], [0, None, 2])
    assert (left_out.requests, left_out.of) == (0, 3)


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


SURROGATE = {"instances": [["a\ud800", 1.0]]}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (event("request", "a", {"image": 1}), "it has no instances or inputs"),
        (event("request", "a", "{"), "Expecting property name"),
        (event("request", "a", {"inputs": [{"name": "x", "shape": [2], "data": [1]}]}), "cannot reshape"),
        (event("request", "a", {"inputs": ["x"]}), "indices"),
        (event("request", "a", {"instances": [["text", 1]]}), "'0' is text, where most have a number"),
        (event("request", "a", {"instances": [[True, 1]]}), "'0' is true or false, where most have a number"),
        (event("request", "a", {"instances": [[{"a": 1}, 1]]}), "'0' is an object, where most have a number"),
        (
            event("request", "a", {"instances": [[[1, "x"], 1]]}),
            "'0' is a list of several kinds, where most have a num",
        ),
        (event("request", "a", {"instances": [{"other": 1 << 70}]}), "'other' is a number beyond 64 bits"),
        (event("request", "a", SURROGATE), "'0' is text that is no Unicode, where most have a number"),
        (event("request", "a", "[" * 100_000), "maximum recursion"),
        (event("request", "a", {"instances": [[1, 2]]}, time="yesterday"), "Invalid isoformat"),
        (event("request", "a", {"instances": [[1, 2]]}, time=7), "must be str"),
        (event("request", "a", {"instances": [[1, 2]]}, time=None), "it has no time, which most have"),
        (event("request", "a", {"instances": [{"0": 1, "time": 3}]}), "it has an input 'time', which is the log's own"),
        (event("request", "", {"instances": [[1, 2]]}), "it has no id"),
        (event("response", "ok", {"predictions": [1], "outputs": 3}) | {"data_base64": "!", "data": None}, "base64"),
    ],
)
def test_an_event_that_makes_no_rows_is_left_out_and_named(tmp_path: Path, bad: dict[str, Any], why: str) -> None:
    good = [event("request", f"ok{n}", {"instances": [[1.0, 2.0]]}) for n in range(3)]
    table, left_out = as_rows(lines(tmp_path / "e.jsonl", [good[0], bad, *good[1:]]))
    assert table["request_id"].to_pylist() == ["ok0", "ok1", "ok2"]
    assert table["time"].null_count == 0
    assert (left_out.requests, left_out.of) == (1, 4)
    ((where, words),) = left_out.examples
    assert where.startswith("e.jsonl, line 2")
    assert why in words


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[" * 100_000, "maximum recursion"),
        (b'{"specversion": "1.0", "type"', "it is no JSON"),
        (b'{"specversion": "\xff\xfe"}', "it is no JSON: 'utf-8'"),
        (b"[1, 2]", "it is no object"),
        (b'{"specversion": ' + b"9" * 5000 + b"}", "it is no JSON: Exceeds the limit"),
    ],
    ids=["deep", "cut", "latin", "list", "digits"],
)
def test_a_line_that_is_no_event_is_left_out_and_named(tmp_path: Path, line: bytes, why: str) -> None:
    path = tmp_path / "e.jsonl"
    good = [
        json.dumps(event("request", f"ok{n}", {"instances": [f"a\u2028{n}"]}), ensure_ascii=False) for n in range(2)
    ]
    path.write_bytes(codecs.BOM_UTF8 + good[0].encode() + b"\r\n" + line + b"\n" + good[1].encode())
    table, left_out = as_rows(path)
    assert table["instance"].to_pylist() == ["a\u20280", "a\u20281"], "lines end with a line feed alone"
    assert [left_out.examples[0][0], left_out.requests, left_out.of] == ["e.jsonl, line 2", 1, 3]
    assert why in left_out.examples[0][1]


def test_a_list_that_breaks_off_is_read_so_far(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    whole = json.dumps([event("request", f"r{n}", {"instances": [float(n)]}) for n in range(10)])
    path.write_text(whole[: len(whole) * 2 // 3])
    table, left_out = as_rows(path)
    assert table.num_rows == 6
    assert (left_out.requests, left_out.of) == (1, 7)
    path.write_text(whole.replace('"r5"', "r5"))
    table, left_out = as_rows(path)
    assert (table.num_rows, left_out.requests) == (5, 5), "as many as the rest would hold by its length"
    assert left_out.examples[0][0] == "e.json, event 6"


def test_one_request_of_many_rows_cannot_outvote_the_others(tmp_path: Path) -> None:
    good = [event("request", f"ok{n}", {"instances": [[1.0, 2.0]]}) for n in range(3)]
    many = event("request", "many", {"instances": [["x", 1]] * 1000})
    table, left_out = as_rows(lines(tmp_path / "e.jsonl", [many, *good]))
    assert table.num_rows == 3
    assert left_out.requests == 1


def test_requests_with_names_that_nobody_else_has_do_not_make_columns_without_end(tmp_path: Path) -> None:
    good = [
        event("request", f"ok{n}", {"instances": [{"x": 1.0, "rare": n} if n == 7 else {"x": 1.0}]}) for n in range(300)
    ]
    bomb = [event("request", f"b{n}", {"instances": [{f"y{n}.{m}": 1 for m in range(300)}]}) for n in range(2)]
    table, left_out = as_rows(lines(tmp_path / "e.jsonl", [*good, *bomb]), known=("x", "rare"))
    assert set(table.column_names) == {"request_id", "time", "x", "rare"}
    assert left_out.requests == 2
    assert "as hardly any other request has" in left_out.examples[0][1]


def test_whole_numbers_of_any_size_stay_in_one_column(tmp_path: Path) -> None:
    values = [1.5, (1 << 60) + 1, -1, (1 << 64) - 1]
    log = [event("request", str(n), {"instances": [value]}) for n, value in enumerate(values)]
    assert as_rows(lines(tmp_path / "e.jsonl", log))[0]["instance"].to_pylist() == [float(value) for value in values]


def test_a_tensor_without_elements_makes_no_rows_however_many_its_client_says(tmp_path: Path) -> None:
    none = {"name": "x", "shape": [1 << 16, 0], "datatype": "FP32", "data": []}
    one = {"name": "y", "shape": [1], "datatype": "FP32", "data": [1.5]}
    bomb = event("request", "a", {"inputs": [none]})
    log = lines(tmp_path / "e.jsonl", [bomb, event("request", "b", {"inputs": [none, one]})])
    assert [(row["request_id"], row["y"]) for row in rows(log)] == [("b", 1.5)]


def test_other_files_are_no_foreign_logs(tmp_path: Path) -> None:
    (tmp_path / "plain.jsonl").write_text('{"weight": 1}\n')
    for data in (tmp_path / "plain.jsonl", tmp_path / "missing.jsonl", world.parcels(3, seed=1)):
        assert not is_foreign_log(data)
    with pytest.raises(InvalidInput, match="is no log of KServe"):
        as_rows(tmp_path / "plain.jsonl")


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


def test_damaged_records_are_left_out_and_named(tmp_path: Path) -> None:
    path = tmp_path / "log.tfrecord"
    write_records(path, [classify_log().SerializeToString()] * 4)
    size, whole = path.stat().st_size // 4, path.read_bytes()

    def read(data: bytes) -> tuple[int, LeftOut]:
        path.write_bytes(data)
        table, left_out = as_rows(path)
        return table.num_rows, left_out

    for cut in (1, size // 2, size - 13, size - 3):
        kept, left_out = read(whole[:-cut])
        assert (kept, left_out.requests, left_out.of) == (6, 1, 4)
        assert left_out.examples[0][0] == "log.tfrecord, record 4"
    kept, left_out = read(_flipped(whole, size + 20))
    assert (kept, left_out.requests) == (6, 1), "the records behind a wrong checksum are read"
    assert left_out.examples == (("log.tfrecord, record 2", f"its checksum is wrong, at byte {size}"),)
    kept, left_out = read(_flipped(whole, size))
    assert (kept, left_out.requests, left_out.of) == (2, 3, 4), (
        "where a length is wrong, the rest is counted by its size"
    )
    write_records(path, [b"\xff\xff"])
    with pytest.raises(InvalidInput, match=r"holds no request that can be read: log.tfrecord, record 1: it is no Pred"):
        as_rows(path)


def test_prediction_logs_that_make_no_rows_are_left_out_and_named(tmp_path: Path) -> None:
    good, uneven, bomb = (message("tensorflow.serving.PredictionLog")() for _ in range(3))
    fill(good.predict_log.request.inputs["x"], np.ones(2))
    fill(uneven.predict_log.request.inputs["x"], np.ones(2))
    fill(uneven.predict_log.request.inputs["y"], np.ones(3))
    huge = bomb.predict_log.request.inputs["x"]
    huge.dtype, huge.float_val[:] = 1, [1.0]
    huge.tensor_shape.dim.add(size=1 << 40)
    records = [b"\xff\xff", good.SerializeToString(), uneven.SerializeToString(), bomb.SerializeToString()]
    write_records(tmp_path / "log.tfrecord", records)
    table, left_out = as_rows(tmp_path / "log.tfrecord")
    assert table.num_rows == 2
    assert [where for where, _ in left_out.examples] == [f"log.tfrecord, record {n}" for n in (1, 3, 4)]


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


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


@pytest.mark.parametrize(("bad", "outcome", "returned"), [(1, "PASS", 0), (60, "WARN", 0), (900, "INCONCLUSIVE", 1)])
def test_a_report_says_what_was_left_out_and_passes_only_where_that_is_little(
    tidegate_command: Command, tmp_path: Path, bad: int, outcome: str, returned: int
) -> None:
    training = world.parcels(12_000, seed=1, days=40).select(["weight", "depot"])
    pq.write_table(training, tmp_path / "training.parquet")
    now = world.parcels(2100, seed=2, days=7).select(["weight", "depot"]).to_pylist()
    asked = [event("request", f"r{n}", {"instances": [row]}) for n, row in enumerate(now)]
    asked += [event("request", f"b{n}", {"instances": [{"weight": "<heavy>", "depot": 7}]}) for n in range(bad)]
    lines(tmp_path / "e.jsonl", asked)
    done = tidegate_command("skew", "training.parquet", "e.jsonl", "--report", "skew", "--output", "json")
    report = json.loads(done.stdout)
    assert (report["outcome"], done.returncode) == (outcome, returned)
    assert (report["left_out"]["requests"], report["left_out"]["of"]) == (bad, 2100 + bad)
    assert "e.jsonl, line 2101" in report["sentence"]
    page = (tmp_path / "skew/index.html").read_text()
    assert "is text, where most have a number" in page
    assert "&lt;heavy&gt;" not in page, "why, not what a client sent"
    assert ("what writes, cuts or mixes the log" in page) == (bad > 1)


def test_what_clients_send_does_not_hide_skew(tidegate_command: Command, tmp_path: Path) -> None:
    training = world.parcels(12_000, seed=1, days=40).select(["weight", "depot"])
    pq.write_table(training, tmp_path / "training.parquet")
    now = world.scaled(world.parcels(2100, seed=2, days=7), "weight", 1.609344).select(["weight", "depot"]).to_pylist()
    asked = [event("request", f"r{n}", {"instances": [row]}) for n, row in enumerate(now)]
    asked += [event("request", f"b{n}", {"instances": None}) for n in range(900)]
    lines(tmp_path / "e.jsonl", asked)
    done = tidegate_command("skew", "training.parquet", "e.jsonl")
    assert done.returncode == 1
    assert "kilometres against miles" in done.stdout
    assert "requests left out" not in done.stdout.splitlines()[0]
