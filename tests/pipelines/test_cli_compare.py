"""`tidegate compare`: shadowed answers beside those of clients, from a running engine and from a log alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.command import Command
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.log_blocks import FakeBlock, write_log
from tests.support.models.versions import adding, publish

from tidegate_serving.client import Client
from tidegate_serving.control_client import ControlClient, Shadow


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    tables = {"roots": [tmp_path], "log_path": tmp_path / "log", "allow_unverified": True, "log_block_seconds": 0.05}
    with EngineProcess(tmp_path / "engine", **tables) as made:
        yield made


def logged(root: Path, version: int, y: list[float], **changes: Any) -> None:
    outputs = {"y": np.array(y, "f8"), "name": np.array([b"a"] * len(y), dtype=object)}
    write_log(root, FakeBlock({"x": np.zeros(len(y))}, outputs, version=version, **changes))


def test_a_running_engine_says_which_versions_and_how_many_copies(
    run: Command, engine: EngineProcess, tmp_path: Path
) -> None:
    control = engine.addresses["control"]
    versions = [publish(tmp_path, "m", 1, adding(1)), publish(tmp_path, "m", 2, adding(1.25))]
    with ControlClient(control) as client, Client(engine.addresses["grpc"]) as asks:
        push_and_wait(client, *versions, labels={"stable": 1}, shadow=Shadow(2, 1.0))
        for number in range(5):
            asks.predict("m", {"x": np.array([number], np.float32)})

    def compared() -> Any:
        return json.loads(run("compare", "m", "--control", control, "--json").stdout)

    eventually(lambda: bool(compared()["compared"] == 5))
    document = compared()
    assert document["versions"] == {"primary": 1, "shadow": 2}
    assert document["copies"] == {"copied": 5, "dropped": 0, "failed": 0}
    assert document["outputs"]["y"]["max_difference"] == 0.25
    assert document["outputs"]["y"]["top_agreement"] is None
    shown = run("compare", "m", "--control", control).stdout
    assert "copies that version 2 answered beside what clients got from version 1: 5 logged, 5 compared, 0 failed" in (
        shown
    )
    assert "copies since its start: 5 made, 0 dropped, 0 not fitting" in shown
    assert "0.25" in shown
    assert "1 (clients)" in shown
    only = run("compare", "m", "1", "2", "--output", "z", "--control", control)
    assert (only.returncode, "name an output that both give" in only.stderr) == (2, True)
    unknown = run("compare", "n", "--control", control)
    assert (unknown.returncode, "knows no model 'n'" in unknown.stderr) == (2, True)
    with ControlClient(control) as client:
        push_and_wait(client, *versions, labels={"stable": 1})
    over = run("compare", "m", "--control", control)
    assert over.returncode == 2
    assert "no version of 'm' gets copies now: name both, such as `tidegate compare m 2 3`" in over.stderr


def test_a_log_alone_will_do(run: Command, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    logged(tmp_path, 1, [1, 2, 3], request_id=["a", "b", "c"], received=now)
    logged(tmp_path, 2, [1, 2, 9], request_id=["a", "b", "c"], role=[1, 1, 1], status=[0, 0, 13], received=now)
    shown = run("compare", "m", "1", "2", "--log", tmp_path, "--since", "1h").stdout
    assert "3 logged, 2 compared, 1 failed where the client's did not" in shown
    assert "100.00%" in shown
    assert "1 model_failed" in shown
    assert "copies since" not in shown
    assert run("compare", "m", "2", "1", "--log", tmp_path).stdout.splitlines()[-1].startswith("nothing can be")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--log", "{log}"], "with --log alone nobody knows them: name both"),
        (["1", "--log", "{log}"], "name both versions, such as 2 3, or none"),
        (["1", "2", "--log", "/nowhere"], "/nowhere is no folder: mend the path"),
        (["1", "2", "--log", "{log}", "--since", "soon"], "'soon' is no span of time"),
        (["1", "2", "--control", "127.0.0.1:1"], "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_said(run: Command, tmp_path: Path, arguments: list[str], words: str) -> None:
    done = run("compare", "m", *(text.format(log=tmp_path) for text in arguments))
    assert done.returncode == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_file_of_the_log_that_cannot_be_read_is_named(run: Command, tmp_path: Path, blocks: int) -> None:
    for version in (1, *[2] * blocks):
        logged(tmp_path, version, [1.0], role=[version - 1])
    torn = list((tmp_path / "model=m" / "version=2").glob("*/*.parquet"))[-1]
    torn.write_bytes(torn.read_bytes()[:-8])
    done = run("compare", "m", "1", "2", "--log", tmp_path)
    assert done.returncode == 2
    assert str(torn) in done.stderr
    assert "out of the log" in done.stderr
