"""The `tidegate` command without an engine: what it prints, where, and the exit status."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.support.command import Command, Done
from tests.support.eventually import at_best
from tests.support.release.world import EXAMPLE, HONEST, SIGNATURE, rows

from tidegate_pipelines.cli.app import whole_command
from tidegate_serving.contract.manifest import read_manifest

TRACEBACK = "Traceback"


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def process(*arguments: str, program: Sequence[str] = (sys.executable, "-m", "tidegate_pipelines.cli")) -> Done:
    """The same as a process of its own."""
    done = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of platform python, its signature, example and training data, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(HONEST)
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    (tmp_path / "example.json").write_text(json.dumps(EXAMPLE))
    pq.write_table(rows(500, seed=1), tmp_path / "train.parquet")
    return tmp_path


PUBLISH = (
    *("publish", "model.py", "--name", "m", "--version", "1", "--platform", "python"),
    *("--signature", "signature.json", "--training", "train.parquet", "--label", "late"),
)


ROOT: Any = whole_command()
COMMANDS = {name: ROOT.get_command(None, name) for name in ROOT.list_commands(None)}
LEAVES = [
    (name, *sub)
    for name, command in sorted(COMMANDS.items())
    for sub in ([(one,) for one in sorted(command.commands)] if hasattr(command, "commands") else [()])
    if name != "model-server"  # its help is TensorFlow Serving's list of flags
]


def test_help_lists_every_command_with_examples_and_exit_codes(tidegate: Command) -> None:
    done = tidegate("--help")
    assert done.returncode == 0
    listed = set(re.findall(r"^  ([a-z][a-z-]+)  +[A-Z]", done.stdout, re.MULTILINE))
    assert listed == set(COMMANDS)
    assert listed >= {"keys", "publish", "validate", "verify", "serve", "push", "promote", "rollback", "status", "demo"}
    assert "tidegate publish model.onnx" in done.stdout
    assert "Exit status" in done.stdout


def test_help_is_quick() -> None:
    def seconds() -> float:
        """Of processor time: other tests run meanwhile."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert process("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert at_best(5, lambda: seconds() < 0.5)


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_every_command_teaches_by_example(command: tuple[str, ...], tidegate: Command) -> None:
    own, group = tidegate(*command, "--help"), tidegate(command[0], "--help")
    assert own.returncode == 0
    example = rf"Examples?:\n(    .*\n)*?    tidegate {' '.join(command)}"
    assert re.search(example, own.stdout) or re.search(example, group.stdout)


def test_the_console_script_and_the_module_are_the_same_command() -> None:
    script = process("status", "--control", "127.0.0.1:1", program=[str(Path(sys.executable).with_name("tidegate"))])
    module = process("status", "--control", "127.0.0.1:1")
    assert script == module
    assert (script.returncode, script.stdout) == (2, "")
    assert script.stderr.startswith("tidegate: no engine answers at 127.0.0.1:1")


def test_keys_are_made_once_and_never_overwritten(tidegate: Command, folder: Path) -> None:
    assert tidegate("keys", "new", "keys").returncode == 0
    before = (folder / "keys" / "validator.key").read_bytes()
    assert (folder / "keys" / "validator.key").stat().st_mode & 0o077 == 0
    again = tidegate("keys", "new", "keys")
    assert again.returncode == 2
    assert "has a key named 'validator': rotate it" in again.stderr
    assert (folder / "keys" / "validator.key").read_bytes() == before


def test_publishing_puts_the_version_in_the_repository(tidegate: Command, folder: Path) -> None:
    done = tidegate(*PUBLISH, "--metadata", "title=a tiny model")
    assert done.returncode == 0, done.stderr
    assert "published m:1 at models/m/1" in done.stdout
    manifest, _ = read_manifest(folder / "models" / "m" / "1")
    assert manifest.metadata["title"] == "a tiny model"
    assert manifest.signatures["serving_default"] == SIGNATURE
    assert manifest.example.keys() == EXAMPLE.keys()


@pytest.mark.usefixtures("folder")
def test_publishing_without_training_data_says_what_that_costs(tidegate: Command) -> None:
    done = tidegate(
        *("publish", "model.py", "--name", "m", "--version", "1", "--platform", "python"),
        *("--signature", "signature.json", "--example", "example.json"),
    )
    assert done.returncode == 0, done.stderr
    assert "skew cannot be judged" in done.stdout


MISTAKES: Sequence[tuple[tuple[str, ...], str]] = (
    (("publish", "none.onnx", "--name", "m", "--version", "1", "--platform", "onnx"), "none.onnx is missing"),
    (("publish", "model.py", "--name", "../m", "--version", "1", "--platform", "python", "--signature",
      "signature.json", "--example", "example.json"), "servable name '../m' cannot be used"),
    (("publish", "model.py", "--name", "m", "--version", "1", "--platform", "python"), "write one as JSON"),
    (("publish", "model.py", "--name", "m", "--version", "one", "--platform", "python"), "--version"),
    (("publish", "model.py", "--name", "m", "--version", "1", "--platform", "python", "--metadata", "x"), "NAME=VALUE"),
    (("validate", "models/m/1", "--held-out", "train.parquet", "--key", "no.key"), "key file no.key is missing"),
    (("validate", "models/m/1", "--held-out", "train.parquet"), "models/m/1 is missing"),
    (("release", "models/m/1", "--held-out", "train.parquet", "--key", "k"), "models/m/1 is missing: mend the path"),
    (("keys", "new", "model.py/ring"), "model.py/ring cannot be used: Not a directory: mend the path"),
    (("release", "model.py", "--held-out", "train.parquet", "--key", "k"), "model.py is a file: name a version's"),
    (("skew", "train.parquet", "train.parquet", "--report", "model.py"), "'--report': dir 'model.py' is a file"),
    (("validate", "train.parquet", "--held-out", "train.parquet", "--report", "model.py"), "'model.py' is a file"),
    (("monitor", "m", "--reports", "model.py"), "'--reports': dir 'model.py' is a file"),
    (("skew", "train.parquet", "train.parquet", "--since", "2026-01-01"), "--since is of the log of an engine"),
    (("skew", "models/m/1", "--log", "log", "--time", "at", "--key", "id"), "--time, --key is of two tables"),
    (("push", "models/m/1"), "models/m/1 is not on this machine"),
    (("push", "model.py"), "model.py is a file: name a version's"),
    (("publish", "model.py", "--name", "m", "--version", "1", "--platform", "python", "--signature", "signature.json",
      "--example", "example.json", "--repository", "file:///models"), "is an address: publish to a folder"),
    (("status", "--control", "127.0.0.1:1"), "127.0.0.1:1"),
    (("promote", "m", "2", "--control", "127.0.0.1:1"), "127.0.0.1:1"),
    (("predict", "m", "--json", "{"), 'write them like {"distance": 719}'),
    (("approve", "17", "--reason", "x", "--hub", "nonsense"), "'nonsense' is no URL: write it like http://"),
    (("predict", "m"), "give the inputs once"),
    (("predict", "m", "--file", "none.json"), "none.json is missing"),
    (("predict", "m", "--json", "[]"), "one JSON object"),
    (("predict", "m", "--json", '{"x": 1}', "--address", "127.0.0.1:1"), "127.0.0.1:1"),
    (("serve", "--config", "none.toml"), "none.toml is missing"),
    (("serve", "--trusted-key", "none.pub", "--control-address", "127.0.0.1:0"), "none.pub"),
    (("skew", "models/m/1"), "--log"),
    (("skew", "models/m/1", "--log", "log", "--since", "yesterday"), "'yesterday' is no time"),
    (("frobnicate",), "frobnicate"),
)  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=[" ".join(given[:3]) for given, _ in MISTAKES])
@pytest.mark.usefixtures("folder")
def test_a_users_mistake_is_one_sentence_on_stderr_and_exit_status_2(
    arguments: tuple[str, ...], words: str, tidegate: Command
) -> None:
    done = tidegate(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert done.stdout == ""
    assert TRACEBACK not in done.stderr


def test_a_version_that_is_taken_by_other_files_is_a_mistake_with_its_cure(tidegate: Command, folder: Path) -> None:
    tidegate(*PUBLISH)
    assert tidegate(*PUBLISH).returncode == 0, "the same again changes nothing"
    with (folder / "model.py").open("a") as model:
        model.write("# changed\n")
    again = tidegate(*PUBLISH)
    assert again.returncode == 2
    assert "publish under a new number" in again.stderr


def test_debug_shows_where_it_went_wrong(tidegate: Command) -> None:
    done = tidegate("--debug", "status", "--control", "127.0.0.1:1")
    assert done.returncode == 2
    assert TRACEBACK in done.stderr


def test_a_fault_of_our_own_is_called_that_and_has_its_own_status(
    tidegate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_operators.steps.keys.make_keys", lambda *_: 1 / 0)
    done = tidegate("keys", "new", "keys")
    assert done.returncode == 70
    assert "ZeroDivisionError" in done.stderr
    assert TRACEBACK not in done.stderr


def test_evidence_that_cannot_judge_is_the_users_mistake(folder: Path, tidegate: Command) -> None:
    tidegate(*PUBLISH)
    tidegate("keys", "new", "keys")
    bare = rows(50, seed=2).drop(["late"])
    pq.write_table(bare, folder / "unlabelled.parquet")
    pq.write_table(bare.append_column("late", [[[1, 0]] * 50]), folder / "lists.parquet")
    for name, complaint in (("unlabelled", "lacks late (it has"), ("lists", "label 'late' has type list")):
        done = tidegate("validate", "models/m/1", "--held-out", f"{name}.parquet", "--key", "keys/validator.key")
        assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr


def test_a_gate_that_cannot_finish_is_a_no_without_a_traceback(folder: Path, tidegate: Command) -> None:
    tidegate(*PUBLISH)
    tidegate("keys", "new", "keys")
    counts = rows(500, seed=2).drop(["late"]).append_column("late", [list(range(500))])
    pq.write_table(counts, folder / "counts.parquet")
    policy = 'run = ["quality"]\nrequired = ["quality"]\n[quality]\ntask = "binary"\n'
    (folder / "policy.toml").write_text(policy)
    evidence = ("--held-out", "counts.parquet", "--key", "keys/validator.key", "--policy", "policy.toml")
    done = process("validate", "models/m/1", *evidence)
    assert done.returncode == 1
    assert "label 'late' holds 500 different values, the task binary has two" in done.stderr
    assert TRACEBACK not in done.stdout + done.stderr
    assert TRACEBACK in process("--debug", "validate", "models/m/1", *evidence).stderr


def written_to(output: int, *arguments: str, **environment: str) -> tuple[int, str]:
    """Exit status and standard error of a command whose standard output goes there."""
    command = [sys.executable, "-m", "tidegate_pipelines.cli", *arguments]
    env = {**os.environ, **environment}
    done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, timeout=60, env=env, check=False)
    return done.returncode, done.stderr


def test_what_an_output_cannot_show_is_escaped(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with shown.open("wb") as output:
        done = written_to(output.fileno(), "keys", "new", str(tmp_path / "schlüssel"), PYTHONIOENCODING="ascii")
    assert done == (0, "")
    assert r"schl\xfcssel" in shown.read_text("ascii")


@pytest.mark.parametrize("arguments", [("config", "show"), ("keys", "new", "ring"), ("--help",)])
def test_a_reader_that_went_away_is_no_no_and_no_fault(folder: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert written_to(writer, *arguments) == (128 + signal.SIGPIPE, "")
    finally:
        os.close(writer)


def test_a_full_output_is_told() -> None:
    with Path("/dev/full").open("wb") as output:
        status, told = written_to(output.fileno(), "config", "show")
    assert status == 2
    assert told == (
        "tidegate: nothing more can be written: No space left on device: make room where the output or the files go\n"
    )


def test_an_output_that_was_closed_before_is_no_fault() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m tidegate_pipelines.cli keys --help >&-"],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
