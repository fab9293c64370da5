"""The `tidegate` command against an engine that `tidegate serve` started: status, predict, push, promote, rollback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper
from sklearn.linear_model import LogisticRegression
from tests.support.command import Command
from tests.support.models.skops_files import write_skops
from tests.support.release.world import BETTER, UNLOADABLE, Endpoints, World, traffic

from tidegate_serving.contract.repository import verdict_path

ROW = '{"x": 0.25, "kind": "a"}'


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], endpoints: Endpoints) -> Command:
    """The command with the engine's addresses in its environment."""
    monkeypatch.setenv("TIDEGATE_CONTROL", endpoints.control)
    monkeypatch.setenv("TIDEGATE_GRPC_ADDRESS", endpoints.grpc)
    return Command(monkeypatch, capsys)


def serve_first(tidegate: Command, world: World, name: str) -> None:
    assert tidegate("push", world.admitted(1, name=name)).stdout == f"{name}:1 is available\n"
    assert tidegate("promote", name, "1").stdout == f"{name}:1 is stable\n"


def test_a_version_is_pushed_tried_promoted_and_rolled_back(
    tidegate: Command, world: World, endpoints: Endpoints
) -> None:
    serve_first(tidegate, world, "walk")
    second = world.admitted(2, BETTER, name="walk")
    assert tidegate("push", second).stdout == "walk:2 is available beside version 1\n"
    assert json.loads(tidegate("predict", "walk", "--json", ROW).stdout)["version"] == 1
    with traffic(endpoints.grpc, "walk"):
        tried = tidegate("canary", "walk", "2", "--pairs", "20", "--within", "30")
    assert tried.stdout.startswith("PASS The canary walk:2 answered")
    assert tidegate("promote", "walk", "2").stdout == "walk:2 is stable; unloaded 1\n"
    assert json.loads(tidegate("predict", "walk", "--json", ROW).stdout)["version"] == 2
    assert tidegate("rollback", "walk").stdout == "walk:1 is stable again\n"
    assert json.loads(tidegate("predict", "walk", "--json", ROW).stdout)["version"] == 1


def test_a_refused_push_is_one_sentence_and_exit_status_1(tidegate: Command, world: World) -> None:
    serve_first(tidegate, world, "refused")
    directory = world.publish(2, name="refused")
    done = tidegate("push", directory)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(verdict_path(directory)) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_canary_without_traffic_is_a_no(tidegate: Command, world: World) -> None:
    serve_first(tidegate, world, "quiet")
    tidegate("push", world.admitted(2, name="quiet"))
    done = tidegate("canary", "quiet", "2", "--pairs", "5", "--within", "0.5")
    assert done.returncode == 1
    assert "0 requests were shadowed" in done.stderr


def test_a_canary_in_traffic_takes_its_shares_in_percent_and_says_where_it_ended(
    tidegate: Command, world: World
) -> None:
    serve_first(tidegate, world, "shared")
    tidegate("push", world.admitted(2, name="shared"))
    traffic = ("canary", "shared", "2", "--mode", "traffic", "--within", "0.5", "--key", "x-user-id")
    assert "is no list of percents: write 1,5,25,100" in tidegate(*traffic, "--shares", "1 5").stderr
    assert "let them grow" in tidegate(*traffic, "--shares", "50,5").stderr
    done = tidegate(*traffic, "--shares", "5%, 50")
    assert done.returncode == 1
    assert "is at 5.00 % of the traffic with 0 answers and none to compare within 0.5 s" in done.stderr


def test_predict_takes_a_row_rows_and_columns(tidegate: Command, world: World, tmp_path: Path) -> None:
    serve_first(tidegate, world, "asked")
    answer = json.loads(tidegate("predict", "asked", "--json", ROW).stdout)
    assert answer == {"model": "asked", "version": 1, "outputs": {"p": [0.25]}}
    rows = tmp_path / "rows.json"
    rows.write_text('[{"x": 0.25, "kind": "a"}, {"x": 0.5, "kind": "b"}]')
    assert json.loads(tidegate("predict", "asked", "--file", rows).stdout)["outputs"] == {"p": [0.25, 0.5]}
    columns = '{"x": [0.5, 0.75], "kind": ["a", "a"]}'
    found = tidegate("predict", "asked", "--json", columns, "--version", "1").stdout
    assert json.loads(found)["outputs"] == {"p": [0.5, 0.75]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody", "--json", ROW), "(nobody): see `tidegate status` for what is served"),
        (("wrong", "--json", '{"x": 1}'), "input 'kind' is missing: the model takes"),
        (("wrong", "--json", '{"x": 1, "kind": "a", "y": 2}'), "input 'y' is unknown"),
        (("wrong", "--json", '{"x": "much", "kind": "a"}'), "input 'x' wants float32"),
        (("wrong", "--json", '[{"x": 1, "kind": "a"}, {"x": 2}]'), "do not have the same inputs"),
        (("wrong", "--json", ROW, "--version", "7"), "7"),
        (("wrong", "--json", ROW, "--signature", "other"), "no signature 'other'"),
    ],
)
def test_a_question_that_makes_no_sense_is_named(
    tidegate: Command, world: World, arguments: tuple[str, ...], words: str
) -> None:
    if not (world.repository / "wrong").exists():
        serve_first(tidegate, world, "wrong")
    done = tidegate("predict", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def write_sklearn(folder: Path, frame: pd.DataFrame) -> float:
    """A logistic regression as a skops file; what it says of the first row."""
    model = LogisticRegression().fit(frame[["x", "z"]], frame["late"])
    write_skops(model, folder / "model.skops")
    return float(model.predict_proba(frame[["x", "z"]].head(1))[0, 1])


def write_onnx(folder: Path, frame: pd.DataFrame) -> float:
    """x + z as a graph with a column [N, 1] per input; what it says of the first row."""
    columns = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 1]) for name in ("x", "z", "sum")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "z"], ["sum"])], "g", columns[:2], columns[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return float(frame["x"][0] + frame["z"][0])


@pytest.mark.parametrize(
    ("platform", "output", "write"), [("sklearn", "probability", write_sklearn), ("onnx", "sum", write_onnx)]
)
def test_a_model_whose_signature_is_inferred_serves_as_it_predicts(
    tidegate: Command,
    world: World,
    tmp_path: Path,
    platform: str,
    output: str,
    write: Callable[[Path, pd.DataFrame], float],
) -> None:
    random = np.random.default_rng(2)
    frame = pd.DataFrame(random.random((300, 2)).astype(np.float32), columns=["x", "z"])
    frame["late"] = (frame["x"] > 0.5).astype(np.int64)
    expected = write(tmp_path, frame)
    frame.to_parquet(tmp_path / "train.parquet")
    model = next(path for path in tmp_path.iterdir() if path.stem == "model")
    done = tidegate(
        *("publish", model, "--name", platform, "--version", "1", "--platform", platform),
        *("--repository", world.repository, "--training", tmp_path / "train.parquet", "--label", "late"),
    )
    assert done.returncode == 0, done.stderr
    world.admit(world.repository / platform / "1")
    assert tidegate("push", world.repository / platform / "1").returncode == 0
    row = json.dumps({"x": float(frame["x"][0]), "z": float(frame["z"][0])})
    answer = json.loads(tidegate("predict", platform, "--json", row).stdout)
    assert answer["outputs"][output] == pytest.approx([expected], abs=1e-6)


def test_status_shows_states_labels_and_addresses(tidegate: Command, world: World, endpoints: Endpoints) -> None:
    serve_first(tidegate, world, "shown")
    shown = tidegate("status", "shown").stdout
    assert endpoints.grpc in shown
    assert str(world.log) in shown
    row = next(line for line in shown.splitlines() if line.strip().startswith("shown"))
    assert row.split()[1:4] == ["1", "AVAILABLE", "stable"]
    document = json.loads(tidegate("status", "shown", "--json").stdout)
    assert document["format"] == "tidegate.status/1"
    assert [version["version"] for version in document["servables"][0]["versions"]] == [1]
    assert "nothing" not in tidegate("status").stdout


def test_status_tells_why_a_version_failed(tidegate: Command, world: World) -> None:
    serve_first(tidegate, world, "failing")
    assert tidegate("push", world.admitted(2, UNLOADABLE, name="failing")).returncode == 1
    assert "failing:2 model_failed:" in tidegate("status", "failing").stdout


def test_the_status_of_an_unknown_model_is_a_mistake(tidegate: Command) -> None:
    done = tidegate("status", "nobody")
    assert done.returncode == 2
    assert "knows no model 'nobody'" in done.stderr


def test_a_port_in_use_is_a_mistake_that_names_the_address(world: World, endpoints: Endpoints, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidegate_pipelines.cli", "serve", "--root", str(tmp_path)]
    command += ["--trusted-key", str(world.public_key)]
    taken = ["--grpc-address", endpoints.grpc, "--rest-address", "127.0.0.1:0", "--control-address", "127.0.0.1:0"]
    done = subprocess.run([*command, *taken], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert endpoints.grpc in done.stderr
    assert "Traceback" not in done.stderr
