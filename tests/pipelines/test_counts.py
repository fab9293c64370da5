from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate_pipelines.cli.audit import app
from tidegate_pipelines.hub.audit import Act, AuditLog
from tidegate_pipelines.hub.store import Database
from tidegate_validation.counts import counted


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("row",), "1 row"),
        (0, ("row",), "0 rows"),
        (2000, ("release came", "releases came"), "2,000 releases came"),
        (1, ("old one is", "old ones are"), "1 old one is"),
    ],
)
def test_what_is_one_is_said_in_the_singular(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said


def test_a_command_counts_one_line_as_one(tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{tmp_path}/hub.db")) as database:
        database.migrate()
        AuditLog(database).add(Act("anna", "pin", "model m"))
    copied = CliRunner().invoke(app, ["export", str(tmp_path / "copy"), "--directory", str(tmp_path)])
    assert "1 line was copied" in copied.output
    checked = CliRunner().invoke(app, ["verify", "--directory", str(tmp_path)])
    assert "1 line, 1 to 1, nothing is wrong" in checked.output
