"""The `tidegate` command at 3 a.m.: who did what, what is decided, and how to decide otherwise, on a real engine."""

from __future__ import annotations

import json
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from tests.support.command import Command
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import adding, publish

from tidegate_pipelines.cli.events import once
from tidegate_pipelines.cli.split import parse_shares
from tidegate_pipelines.cli.status_words import lines
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ServableStatus, VersionStatus
from tidegate_serving.journal import Entry, Kind


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("engine")
    tables = {"roots": [root], "state_directory": folder / "state", "allow_unverified": True}
    with EngineProcess(folder, **tables) as engine:
        yield engine


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: EngineProcess) -> Command:
    """The command with the engine's addresses in its environment."""
    monkeypatch.setenv("TIDEGATE_CONTROL", engine.addresses["control"])
    monkeypatch.setenv("TIDEGATE_GRPC_ADDRESS", engine.addresses["grpc"])
    monkeypatch.setenv("TIDEGATE_REQUESTED_BY", "anna")
    return Command(monkeypatch, capsys)


def answers(tidegate: Command, name: str) -> tuple[int, float]:
    done = tidegate("predict", name, "--json", '{"x": 1.0}')
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer["version"], answer["outputs"]["y"][0]


def serve(tidegate: Command, root: Path, name: str, *versions: int) -> None:
    for version in versions:
        assert tidegate("push", publish(root, name, version, adding(version))).returncode == 0
        assert tidegate("promote", name, str(version), "--keep-previous").returncode == 0


def test_status_says_who_asked_what_is_decided_and_where_a_rollback_leads(tidegate: Command, root: Path) -> None:
    serve(tidegate, root, "told", 1, 2)
    assert tidegate("disable", "told", "--reason", "prices are wrong").stdout == "told answers no request\n"
    shown = tidegate("status", "told").stdout
    assert "told: desired are 2, stable on 2 (revision 4), by anna at 20" in shown
    assert "WARN told: switched off, no request is answered, by anna at 20" in shown
    assert ": prices are wrong\n" in shown
    assert "told: a rollback goes to version 1, at once\n" in shown
    refused = tidegate("predict", "told", "--json", '{"x": 1.0}')
    assert refused.returncode != 0
    assert "prices are wrong" in refused.stderr
    assert "no engine answers" not in refused.stderr
    assert tidegate("enable", "told").stdout == "told answers again\n"
    assert answers(tidegate, "told") == (2, 3.0)
    document = json.loads(tidegate("status", "told", "--json").stdout)["servables"][0]
    assert (document["previous"], document["kept"], document["overrides"]) == (1, [1], [])
    assert document["desired"]["labels"] == {"stable": 2}


def test_a_model_goes_back_stays_and_goes_on(tidegate: Command, root: Path) -> None:
    serve(tidegate, root, "back", 1, 2)
    assert tidegate("rollback", "back", "--reason", "3 a.m.").stdout == "back:1 is stable again\n"
    assert answers(tidegate, "back") == (1, 2.0)
    assert tidegate("pin", "back", "1").stdout == "ordinary traffic of back stays on version 1\n"
    serve(tidegate, root, "back", 3)
    assert answers(tidegate, "back") == (1, 2.0)
    assert tidegate("unpin", "back").returncode == 0
    assert answers(tidegate, "back") == (3, 4.0)
    assert (
        "back:3 must not serve; version 1 takes its"
        in tidegate("block", "back", "3", "--reason", "leaked labels").stdout
    )
    assert answers(tidegate, "back")[0] != 3
    assert tidegate("unblock", "back", "3").returncode == 0


def test_a_frozen_model_says_who_froze_it(tidegate: Command, root: Path) -> None:
    serve(tidegate, root, "cold", 1)
    assert tidegate("freeze", "cold", "--reason", "audit").stdout == "cold is frozen as it is\n"
    refused = tidegate("push", publish(root, "cold", 2, adding(2)))
    assert refused.returncode == 2
    assert "frozen by anna (audit): nothing changes until `tidegate unfreeze cold`" in refused.stderr
    assert tidegate("rollback", "cold", "--to", "2").returncode == 2
    assert tidegate("unfreeze", "cold").stdout == "cold may change again\n"


def test_traffic_is_split_and_the_split_ends(tidegate: Command, root: Path) -> None:
    serve(tidegate, root, "two", 1, 2)
    done = tidegate("split", "two", "1=100%", "--key", "x-user-id")
    assert done.stdout == "ordinary traffic of two is split by x-user-id: 1 to 1\n"
    assert answers(tidegate, "two")[0] == 1
    assert "ordinary traffic is split by x-user-id: 1 to 1" in tidegate("status", "two").stdout
    assert tidegate("split", "two", "--off").stdout == "two is split no more\n"
    assert answers(tidegate, "two")[0] == 2
    assert tidegate("split", "two", "1=0.9").returncode == 2
    assert tidegate("split", "two").returncode == 2


def test_events_tell_what_changed_in_words_and_as_json(tidegate: Command, root: Path) -> None:
    serve(tidegate, root, "heard", 1)
    assert tidegate("pin", "heard", "9").returncode == 2
    tidegate("pin", "heard", "1", "--reason", "calm")
    shown = tidegate("events", "heard").stdout.splitlines()
    words = [line.partition("  ")[2] for line in shown]
    assert "heard:1 is available" in words
    assert words[-1] == "ordinary traffic of heard stays on version 1 by anna (calm)"
    assert words[-2].startswith("pin of heard was refused:")
    assert "heard:1 is loading" not in words
    assert "heard:1 is loading" in tidegate("events", "heard", "--all").stdout
    lines = [json.loads(line) for line in tidegate("events", "heard", "--json", "--newest", "1").stdout.splitlines()]
    assert [(line["format"], line["kind"], line["action"]) for line in lines] == [
        ("tidegate.journal/1", "control", "pin")
    ]
    assert tidegate("events", "nobody", "--since", "5m").stdout == "nothing changed in the last 5m\n"
    assert tidegate("events", "--since", "yesterday").returncode == 2


@pytest.mark.parametrize(("state", "how"), [(State.AVAILABLE, "at once"), (State.END, "once it has loaded")])
def test_a_rollback_is_quick_where_the_version_is_there_whoever_wants_it(state: State, how: str) -> None:
    status = ServableStatus("m", DesiredState("m"), versions=(VersionStatus(1, state),), previous=1)
    assert list(lines(status)) == [(f"m: a rollback goes to version 1, {how}", "")]


def test_words_of_other_people_do_not_steer_a_terminal(tidegate: Command, root: Path) -> None:
    serve(tidegate, root, "worded", 1)
    tidegate("freeze", "worded", "--reason", "red \x1b[31m\nand two lines")
    for shown in (tidegate("status", "worded").stdout, tidegate("events", "worded").stdout):
        assert "red \\x1b[31m\n" in shown
        assert "\x1b" not in shown
    assert "(red \\x1b[31m\n    and two lines)" in tidegate("events", "worded").stdout
    tidegate("unfreeze", "worded")
    long = tidegate("freeze", "worded", "--reason", "x" * 4001)
    assert long.returncode == 2
    assert "reason has 4001 characters: use 4000 or less" in long.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("pin", "m", "9223372036854775808"),
        ("rollback", "m", "--to", "9223372036854775808"),
        ("predict", "m", "--version", "-1", "--json", "{}"),
        ("split", "m", "9223372036854775808=1"),
        ("compare", "m", "1", "9223372036854775808"),
    ],
)
def test_a_version_that_cannot_be_is_a_wrong_option(tidegate: Command, arguments: tuple[str, ...]) -> None:
    done = tidegate(*arguments)
    assert done.returncode == 2
    assert "fault of Tidegate" not in done.stderr


def test_what_fails_again_and_again_is_told_once() -> None:
    def entry(second: int, text: str, **more: str) -> Entry:
        kind, action = (Kind.STATE, "END") if more else (Kind.CONTROL, "pin")
        return Entry(kind, action, text, "m", 1, at_us=second * 1_000_000, **more)

    failed = [entry(second, "m:1 has ended", error_code="tampered") for second in (1, 3, 9)]
    other = entry(5, "m:1 has ended with something else", error_code="tampered")
    pins = [entry(2, "pinned"), entry(4, "pinned")]
    told = list(once([failed[0], pins[0], failed[1], pins[1], other, failed[2]]))
    assert told == [
        (pins[0], ""),
        (pins[1], ""),
        (other, ""),
        (failed[2], " (3 times since 1970-01-01 00:00:01 UTC)"),
    ]


def test_notes_are_told_once_with_the_versions_that_they_are_about(tidegate: Command, root: Path) -> None:
    serve(tidegate, root, "noted", 1, 2)
    shown = tidegate("status", "noted").stdout
    assert "WARN noted:2, noted:1 UNVERIFIED: admitted without a verdict (allow_unverified)\n" in shown
    assert shown.count("UNVERIFIED") == 1


def test_the_log_level_changes_live(tidegate: Command, engine: EngineProcess) -> None:
    assert tidegate("log-level", "debug").stdout == "the engine logs at DEBUG now, at INFO before\n"
    assert tidegate("log-level", "INFO", "--logger", "tidegate_serving").stdout.endswith("at DEBUG before\n")
    unknown = tidegate("log-level", "INFO", "--logger", "somebody.else")
    assert unknown.returncode, "a logger of any name would be kept for ever"
    assert "no logger is called 'somebody.else' in this engine: use one such as tidegate_serving" in unknown.stderr
    wrong = tidegate("log-level", "LOUD")
    assert wrong.returncode == 2
    assert "use DEBUG, INFO, WARNING, ERROR" in wrong.stderr
    assert "logger tidegate_serving is at DEBUG, it was at INFO by anna" in tidegate("events").stdout


def test_the_support_bundle_helps_and_tells_no_secret(tidegate: Command, root: Path, tmp_path: Path) -> None:
    serve(tidegate, root, "packed", 1)
    bundle = tmp_path / "bundle.zip"
    assert tidegate("support-bundle", bundle).returncode == 0
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert sorted(files) == [
        "config.toml",
        "journal.jsonl",
        "libraries.json",
        "log.txt",
        "metrics.txt",
        "status.json",
        "system.json",
    ]
    assert tomllib.loads(files["config.toml"])["allow_unverified"] is True
    assert "packed:1 is AVAILABLE" in files["log.txt"]
    assert json.loads(files["status.json"])["format"] == "tidegate.status/1"
    assert json.loads(files["libraries.json"])["grpcio"]
    assert "packed" in files["journal.jsonl"]
    assert tidegate("support-bundle", tmp_path / "missing" / "bundle.zip").returncode == 2
    assert list(tmp_path.iterdir()) == [bundle]


@pytest.mark.parametrize("text", ["2", "2=", "two=1", "2=x%", "=1"])
def test_shares_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no share of a version"):
        parse_shares([text])


def test_shares_as_percent_and_as_numbers() -> None:
    assert parse_shares(["2=90%", "3=0.1"]) == {2: 0.9, 3: 0.1}
    with pytest.raises(typer.BadParameter, match="each version once"):
        parse_shares(["2=50%", "2=0.5"])
