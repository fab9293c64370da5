"""`tidegate expectations`: suites as files to edit, and in words."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.support.command import Command
from tests.validation import world


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    pq.write_table(world.parcels(500, seed=1), tmp_path / "train.parquet")
    return Command(monkeypatch, capsys)


INFER = ("expectations", "infer", "--training", "train.parquet", "--label", world.LABEL, "--event-time", world.TIME)


def test_suites_are_inferred_edited_and_shown(tidegate: Command, tmp_path: Path) -> None:
    done = tidegate(*INFER, "--out", "suites")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "suites" / "suite.json"
    document = json.loads(path.read_text())
    document["expectations"] = document["expectations"][:1]
    document["expectations"][0]["severity"] = "info"
    path.write_text(json.dumps(document))
    shown = tidegate("expectations", "show", "suites")
    assert shown.returncode == 0
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "weight info is there" in lines
    assert any(line.startswith("weight warning median lies within") for line in lines)
    assert not any(line.startswith("depot critical holds text") for line in lines)


def test_an_edited_suite_is_not_overwritten(tidegate: Command, tmp_path: Path) -> None:
    tidegate(*INFER, "--out", "suites")
    (tmp_path / "suites" / "suite.json").write_text("edited")
    again = tidegate(*INFER, "--out", "suites")
    assert (again.returncode, "perhaps edited" in again.stderr) == (2, True)
    assert (tmp_path / "suites" / "suite.json").read_text() == "edited"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("infer", "--out", "suites"), "give one of the two"),
        (("infer", "models/1", "--out", "suites"), "models/1 is missing: mend the path"),
        (("infer", "train.parquet", "--out", "suites"), "train.parquet is a file: name a version's directory"),
        (("show", "models/parcels/9"), "models/parcels/9 is no folder, of a version or of suites: check the path"),
        (("show", "."), "holds neither a version nor a suite.json"),
        (("show", "version"), "`tidegate expectations infer version --out FOLDER`"),
    ],
)
def test_a_mistake_is_said(tidegate: Command, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "version").mkdir()
    (tmp_path / "version" / "manifest.json").write_text("{}")
    done = tidegate("expectations", *arguments)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
