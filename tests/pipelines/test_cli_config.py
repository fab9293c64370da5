"""`tidegate config`, `tidegate reload` and `tidegate model-server`, run in this process."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import publish

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.view import as_reread, diff, effective, seen, to_toml


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("engine")
    publish(folder / "r", "m", 1)
    with EngineProcess(folder / "engine", repository=folder / "r", allow_unverified=True) as made:
        yield made


def file(folder: Path, text: str) -> Path:
    path = folder / "new.toml"
    path.write_text(text)
    return path


def test_a_file_is_shown_with_the_place_of_each_value(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_POLL_SECONDS", "3")
    path = file(tmp_path, 'drain_seconds = 5\n[models."a.b"]\nlabels = {stable = 1}\n')
    shown = run("config", "show", "--config", path, "--changed").stdout
    assert shown.splitlines() == [
        "poll_seconds = 3.0  # variable TIDEGATE_POLL_SECONDS",
        f"drain_seconds = 5.0  # {path}",
        f'models."a.b".labels.stable = 1  # {path}',
    ]


def test_what_is_shown_can_be_a_file_again(tmp_path: Path) -> None:
    config = EngineConfig.load(
        file(
            tmp_path,
            'roots = ["/a"]\nrepository = "/r"\n[batching]\ntimeout_us = 3\n[models.m]\nversions = "all"\n'
            "batching = {max_batch_rows = 7}\n[platforms.tensorflow]\nintra_op_threads = 2\n",
        ),
        {},
    )
    text = to_toml(effective(config))
    assert tomllib.loads(text)["models"]["m"]["batching"]["max_batch_rows"] == 7
    again = EngineConfig.load(file(tmp_path, text), {})
    assert again == config
    assert not diff(config, again)


def test_two_files_are_compared(run: Command, tmp_path: Path) -> None:
    old = tmp_path / "old.toml"
    old.write_text('grpc_address = "127.0.0.1:1"\n[models.m]\nversions = "all"\n')
    done = run("config", "diff", file(tmp_path, "[models.n]\nlabels = {stable = 2}\n"), "--config", old)
    assert done.stdout.splitlines() == [
        'grpc_address: "127.0.0.1:1" -> "127.0.0.1:8500"   (needs a restart: clients are connected to it)',
        'models.m.versions: "all" -> not set',
        "models.n.labels.stable: not set -> 2",
    ]
    same = run("config", "diff", old, "--config", old, "--json")
    assert json.loads(same.stdout) == {"format": "tidegate.config-diff/1", "changes": [], "not_compared": []}


def test_what_an_engine_was_told_otherwise_wins_over_another_file(tmp_path: Path) -> None:
    said = {"TIDEGATE_FLEET_NODE": "a", "TIDEGATE_FLEET_ETCD": "etcd:2379", "TIDEGATE_POLL_SECONDS": "3"}
    given = {"roots": (Path("/a"),), "allow_unverified": True, "platforms": {"tensorflow": {"tags": "serve"}}}
    old = EngineConfig.load(None, said, given)
    new = as_reread(file(tmp_path, 'poll_seconds = 9\nroots = ["/b"]\n[fleet]\nnode = "b"\nhost = "h"\n'), seen(old))
    assert [str(change) for change in diff(old, new).changes] == [
        'fleet.host: "" -> "h"   (needs a restart: the engine is a node under that name)'
    ]


def test_a_running_engine_says_what_it_lives_by_and_reads_it_again(
    run: Command, engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = engine.addresses["control"]
    shown = json.loads(run("config", "show", "--control", control, "--changed", "--json").stdout)
    origins = {value["key"]: value["origin"] for value in shown["values"]}
    assert origins["allow_unverified"] == str(engine.config)
    first = engine.config.read_text()
    engine.config.write_text(first + "[models.m]\nlog_sampling_rate = 0.5\n")
    line = "models.m.log_sampling_rate: not set -> 0.5\n"
    assert run("reload", "--dry-run", "--control", control).stdout == line
    monkeypatch.setenv("TIDEGATE_POLL_SECONDS", "7")  # of this shell, and not of the engine
    assert run("config", "diff", engine.config, "--control", control).stdout == line
    assert run("reload", "--control", control, "--reason", "less to read").stdout == line
    assert run("reload", "--control", control).stdout == "nothing changes\n"
    engine.config.write_text(first + "[models.m]\nlog_smapling_rate = 0.5\n")
    refused = run("reload", "--control", control)
    assert refused.returncode == 2
    assert "did you mean log_sampling_rate?" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "out", "err"),
    [
        (["--version"], 0, "TensorFlow ModelServer: Tidegate", ""),
        (["--help"], 0, "--model_config_file=", ""),
        ([], 2, "", "Failed to start server. Error: Both model_base_path and model_config_file are empty!"),
        (["--prot=1"], 2, "", "did you mean --port?"),
        (["--use_alts_credentials"], 2, "", "--use_alts_credentials is not supported"),
    ],
)
def test_the_model_server_says_what_is_wrong(
    run: Command, arguments: list[str], status: int, out: str, err: str
) -> None:
    done = run("model-server", *arguments)
    assert done.returncode == status
    assert out in done.stdout
    assert err in done.stderr
