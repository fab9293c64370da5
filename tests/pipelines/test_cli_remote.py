"""The `tidegate` command against an engine on another machine: profiles, variables, tokens, and what goes wrong."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.engine.remote import RemoteEngine
from tests.support.models.versions import publish

from tidegate_serving.control.access.access_file import read_access


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteEngine]:
    folder = tmp_path_factory.mktemp("remote")
    (folder / "models").mkdir()
    remote = RemoteEngine(folder, roots=[folder / "models"], allow_unverified=True)
    with remote.process:
        yield remote


@pytest.fixture
def tidegate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: RemoteEngine, tmp_path: Path
) -> Command:
    """The command with a file of profiles: `live` with every right, `look` and `nobody`."""
    lines = []
    for name in ("operate", "look"):
        (tmp_path / name).write_text(engine.tokens[name])
        (tmp_path / name).chmod(0o600)
        lines.append(f'[{name}]\ncontrol = "{engine.address}"\nca = "{engine.authority.file}"\n')
        lines.append(f'token_file = "{tmp_path / name}"\ngrpc = "{engine.process.addresses["grpc"]}"\n')
    lines.append(f'[nobody]\ncontrol = "{engine.address}"\nca = "{engine.authority.file}"\n')
    (tmp_path / "profiles.toml").write_text("".join(lines))
    monkeypatch.setenv("TIDEGATE_PROFILES", str(tmp_path / "profiles.toml"))
    return Command(monkeypatch, capsys)


def test_a_profile_is_enough_to_release_and_to_ask(tidegate: Command, engine: RemoteEngine) -> None:
    version = publish(engine.process.folder.parent / "models", "flights", 1)
    assert tidegate("--profile", "operate", "push", version).returncode == 0
    assert tidegate("--profile", "operate", "promote", "flights", "1").stdout == "flights:1 is stable\n"
    assert "flights" in tidegate("--profile", "look", "status").stdout
    assert '"version": 1' in tidegate("--profile", "operate", "predict", "flights", "--json", '{"x": 1.0}').stdout


def test_variables_are_enough_too(
    tidegate: Command, engine: RemoteEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEGATE_CONTROL", engine.address)
    monkeypatch.setenv("TIDEGATE_CA", str(engine.authority.file))
    monkeypatch.setenv("TIDEGATE_TOKEN_FILE", str(tmp_path / "look"))
    assert tidegate("status").returncode == 0
    assert tidegate("status", "--control", "127.0.0.1:1").returncode == 2
    monkeypatch.setenv("TIDEGATE_CONTROL", "127.0.0.1:1")
    assert tidegate("status").returncode == 2
    assert tidegate("status", "--control", engine.address).returncode == 0
    assert tidegate("status", "--control", f"tidegates://{engine.address}").returncode == 0


def test_commands_that_read_a_log_take_the_profile_and_its_token(tidegate: Command, engine: RemoteEngine) -> None:
    version = publish(engine.process.folder.parent / "models", "flights", 3)
    for asked in (("skew", version), ("receipt", "6f1c2b")):
        done = tidegate("--profile", "look", *asked)
        assert f"the engine at {engine.address} keeps no inference log" in done.stderr
        done = tidegate("--profile", "look", *asked, "--control", engine.address)
        assert f"the engine at {engine.address} keeps no inference log" in done.stderr
        assert "TIDEGATE_TOKEN_FILE" in tidegate("--profile", "nobody", *asked).stderr
        assert "(there: look, nobody, operate)" in tidegate("--profile", "nope", *asked).stderr
        assert "(tidegate --profile NAME" in tidegate(*asked).stderr
    done = tidegate("--profile", "look", "validate", version, "--held-out", "no.csv", "--control", engine.address)
    assert "no.csv" in done.stderr


def test_an_option_of_tidegate_itself_after_the_command_is_told_where_it_goes(tidegate: Command) -> None:
    done = tidegate("skew", "--profile", "look", "a.csv", "b.csv")
    assert done.returncode == 2
    assert "write it before the command: tidegate --profile NAME skew ..." in done.stderr


def test_an_option_of_the_command_that_lacks_its_value_is_not_called_one_of_tidegate_itself(tidegate: Command) -> None:
    done = tidegate("predict", "flights", "--version")
    assert done.returncode == 2
    assert "Option '--version' requires an argument." in done.stderr
    assert "before the command" not in done.stderr


def test_what_is_not_allowed_is_one_sentence(tidegate: Command) -> None:
    done = tidegate("--profile", "look", "disable", "flights", "--reason", "late")
    assert (done.returncode, done.stdout) == (1, "")
    assert "token 'look' has role look, and disable of 'flights' needs operate" in done.stderr
    done = tidegate("--profile", "nobody", "status")
    assert (done.returncode, done.stdout) == (2, "")
    assert "TIDEGATE_TOKEN_FILE" in done.stderr
    done = tidegate("--profile", "nowhere", "status")
    assert done.returncode == 2
    assert "(there: look, nobody, operate)" in done.stderr


def test_a_token_is_made_for_a_running_engine_and_taken_away(
    tidegate: Command, engine: RemoteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, mine = engine.access.path.read_text(), tmp_path / "mine" / "token"
    done = tidegate(
        *("token", "new", "airflow", "--role", "release", "--models", "flights*", "--models", "prices"),
        *("--file", engine.access.path, "--token-file", mine),
    )
    assert done.returncode == 0
    assert mine.read_text().strip() not in done.stdout
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600
    assert read_access(engine.access.path).token[-1].models == ("flights*", "prices")
    assert engine.access.path.read_text().startswith(before.rstrip())
    monkeypatch.setenv("TIDEGATE_CONTROL", engine.address)
    monkeypatch.setenv("TIDEGATE_CA", str(engine.authority.file))
    monkeypatch.setenv("TIDEGATE_TOKEN_FILE", str(mine))
    assert tidegate("status").returncode == 0
    assert tidegate("token", "new", "again", "--role", "look", "--token-file", mine).returncode == 2
    engine.access.path.write_text(before)
    assert "not one that this engine knows" in tidegate("status").stderr


def test_a_token_alone_is_printed_once_with_its_line(tidegate: Command, tmp_path: Path) -> None:
    done = tidegate("token", "new", "anna", "--role", "operate", "--days", "90")
    text, _, token = done.stdout.rstrip().rpartition("\n")
    path = tmp_path / "access.toml"
    path.write_text(text[text.index("format =") : text.index("the token,")])
    assert read_access(path).by_token(token).name == "anna"
    assert tidegate("token", "new", "anna", "--role", "admin").returncode == 2
    assert tidegate("token", "new", "anna", "--role", "look", "--days", "0").returncode == 2


def test_files_that_others_can_use_are_said(
    tidegate: Command, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    access = tmp_path / "access.toml"
    assert "WARN" not in tidegate("token", "new", "a", "--role", "look", "--file", access).stdout
    access.chmod(0o644)
    assert "chmod o-r it" in tidegate("token", "new", "b", "--role", "look", "--file", access).stdout
    access.chmod(0o666)
    assert "chmod go-w it" in tidegate("token", "new", "c", "--role", "look", "--file", access).stdout
    assert stat.S_IMODE(access.stat().st_mode) == 0o666
    (tmp_path / "look").chmod(0o644)
    assert tidegate("--profile", "look", "status").returncode == 0
    assert tidegate("--profile", "look", "status").returncode == 0
    assert caplog.text.count("can be read by others on this machine") == 1, "once is enough"


def test_an_access_file_that_is_broken_gets_no_line(tidegate: Command, tmp_path: Path) -> None:
    access = tmp_path / "access.toml"
    access.write_text("[[token]")
    assert (
        tidegate("token", "new", "a", "--role", "look", "--file", access, "--token-file", tmp_path / "t").returncode
        == 2
    )
    assert access.read_text() == "[[token]"
    assert not (tmp_path / "t").exists()
