"""What a container component runs: the launcher, told by Kubeflow's own ExecutorInput, against a real engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import eventually
from tests.support.models.gate import Gate
from tests.support.orchestrators.launched_task import Task
from tests.support.release.world import BETTER, HONEST, NAME, Endpoints, World, available, serve_first

from tidegate_operators.kfp.launcher import LaunchedArtifact, main
from tidegate_serving.contract.repository import verdict_path


def evidence(world: World, endpoints: Endpoints, directory: Path) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "held_out": str(world.held_out),
        "private_key": str(world.private_key),
        "policy": str(world.policy("quality")),
        "control": endpoints.control,
    }


def test_the_steps_of_a_release_hand_each_other_what_they_made(
    world: World, endpoints: Endpoints, tmp_path: Path
) -> None:
    directory = world.publish(1, name="chain")
    validate, push, promote = (Task(name, tmp_path) for name in ("validate", "push", "promote"))
    assert validate(evidence(world, endpoints, directory)) == 0, validate.said
    assert validate.parameter("allowed") == "true"
    assert validate.metadata("metrics")["quality.metric.AUC"] > 0.7
    assert validate.metadata("roc")["confidenceMetrics"][-1]["recall"] == 1
    assert (validate.folder / "verdict").read_bytes() == verdict_path(directory).read_bytes()
    assert "<html" in (validate.folder / "report").read_text()
    digest = validate.parameter("verdict_digest")
    told = {"directory": str(directory), "verdict_digest": digest, "control": endpoints.control, "timeout": 60}
    assert push(told) == 0, push.said
    version = {"servable": push.parameter("servable"), "version": int(push.parameter("version"))}
    assert version == {"servable": "chain", "version": 1}
    assert promote({**version, "control": endpoints.control}) == 0, promote.said
    assert promote.parameter("ended") == "[]"
    assert promote({**version, "control": endpoints.control}) == 0, "run again after a kill"
    assert available(endpoints, "chain") == [1]


def test_a_refusal_ends_with_its_sentence_and_leaves_nothing_to_push(
    world: World, endpoints: Endpoints, tmp_path: Path
) -> None:
    serve_first(endpoints, world, "refused")
    directory = world.publish(2, HONEST.replace("np.clip(inputs", "1 - np.clip(inputs"), name="refused")
    validate = Task("validate", tmp_path)
    assert validate({**evidence(world, endpoints, directory), "fail_on_refusal": True}) == 1
    assert validate.said.splitlines()[-1].startswith("tidegate: refused:2 is refused by the quality gate")
    assert validate.metadata("verdict")["allowed"] is False
    require = Task("require", tmp_path)
    assert require({"allowed": False, "sentence": validate.parameter("sentence")}) == 1
    assert require.said.splitlines()[-1] == f"tidegate: {validate.parameter('sentence')} [refused]"
    assert require({"allowed": True, "sentence": "it may"}) == 0


@pytest.mark.parametrize(
    ("component", "parameters", "words"),
    [
        ("push", {"directory": ""}, "parameter 'directory' is '': give it a text"),
        ("push", {"directory": "/nowhere/flights/2"}, "/nowhere/flights/2"),
        ("promote", {"servable": NAME, "version": 1.5}, "parameter 'version' is 1.5: give a whole number"),
        ("promote", {"servable": NAME, "version": 2.0**60}, "Kubeflow Pipelines rounds"),
        ("canary", {"servable": NAME, "version": 1.0, "rule": {"pears": 3.0}}, "pears"),
        ("canary", {"servable": NAME, "version": 1.0, "mode": "both"}, "mode is 'both': use shadow, traffic"),
        (
            "canary",
            {"servable": NAME, "version": 1.0, "mode": "traffic", "rule": {"shares": [0.5, 0.25]}},
            "let them grow",
        ),
        ("skew", {"directory": "/nowhere", "since": "2026-01-01", "window_seconds": 9.0}, "leave one of them out"),
        ("skew", {"directory": "/nowhere", "until": "tomorrow"}, "'tomorrow' is no time"),
        ("publish", {"files": [], "servable": "x", "version": 1.0, "platform": "onnx"}, "parameter 'files' is []"),
        ("rollback", {"servable": NAME, "control": "tidegate://"}, "no address is named"),
    ],
)
def test_bad_input_is_named(
    component: str, parameters: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([component, "--executor-input", Task(component, tmp_path).document(parameters, {})])
    assert ended.value.code == 1
    assert words in capsys.readouterr().err


def test_an_artifact_is_placed_whole_and_placed_again(tmp_path: Path) -> None:
    model, rows = tmp_path / "model", tmp_path / "rows"
    model.mkdir()
    (model / "model.py").write_text(BETTER)
    rows.write_text("x\n1\n")
    for source, target in ((model, tmp_path / "volume/model"), (rows, tmp_path / "volume/rows.csv")):
        for _ in range(2):
            document = Task("to_path", tmp_path).document({"path": str(target)}, {"artifact": source})
            main(["to_path", "--executor-input", document])
    assert sorted(path.name for path in (tmp_path / "volume").iterdir()) == ["model", "rows.csv"]
    assert (tmp_path / "volume/model/model.py").read_text() == BETTER


def test_an_artifact_lies_where_kubeflow_mounts_its_store() -> None:
    paths = {
        "minio://bucket/run/report": "/minio/bucket/run/report",
        "s3://bucket/run/report": "/s3/bucket/run/report",
        "gs://bucket/run/report": "/gcs/bucket/run/report",
        "/volume/report": "/volume/report",
    }
    assert {uri: LaunchedArtifact.of({"uri": uri}).path for uri in paths} == paths


def test_the_launcher_needs_no_kfp() -> None:
    code = "import sys, tidegate_operators.kfp.launcher; print('kfp' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_push_that_is_killed_and_run_again_ends_as_one_that_was_not(
    world: World, endpoints: Endpoints, tmp_path: Path
) -> None:
    serve_first(endpoints, world, "killed")
    gate = Gate.make(tmp_path / "gate")
    wait = f"open({str(gate.entered)!r}, 'w').close()\nopen({str(gate.pipe)!r}, 'rb').read()\n"
    directory = world.admitted(2, wait + HONEST, name="killed")
    push = Task("push", tmp_path)
    told = {"directory": str(directory), "control": endpoints.control}
    process = subprocess.Popen(push.command(told))
    eventually(gate.entered.exists, 60.0)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)
    gate.open()
    assert push(told) == 0, push.said
    assert available(endpoints, "killed") == [1, 2]
    assert Task("promote", tmp_path)({"servable": "killed", "version": 2, "control": endpoints.control}) == 0
    assert available(endpoints, "killed") == [2]
