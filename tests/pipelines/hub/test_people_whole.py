"""A hub as it is started, with sign-in: people decide in it, and its audit log is checked by the command."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select
from tests.support.command import Command
from tests.support.eventually import eventually
from tests.support.hub.access import TOKENS, people_file

from tidegate_operators.steps.keys import new_key
from tidegate_pipelines.hub.releases.requests import Request, request_release
from tidegate_pipelines.hub.store import Database, ReleaseRow, ReleaseState
from tidegate_serving.admission import Role


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@contextmanager
def hub(folder: Path, more: str = "") -> Iterator[str]:
    """Its address, once it answers."""
    config, ready, errors = folder / "hub.toml", folder / "ready.json", folder / "hub.log"
    config.write_text(
        f'address = "127.0.0.1:0"\ndirectory = "{folder}/hub"\n{more}\n'
        f'[access]\nfile = "{people_file(folder)}"\n[engines.one]\ncontrol = "127.0.0.1:9"\n'
    )
    command = [
        sys.executable,
        "-m",
        "tidegate_pipelines.cli",
        "hub",
        "--config",
        str(config),
        "--ready-file",
        str(ready),
    ]
    with errors.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
    try:
        eventually(lambda: ready.exists() or process.poll() is not None, 120.0)
        assert process.poll() is None, errors.read_text()
        yield str(json.loads(ready.read_text())["address"])
    finally:
        process.terminate()
        process.wait(60)
    said = errors.read_text()
    assert not any(token in said for token in TOKENS.values())


def test_people_decide_and_the_log_of_it_is_checked(tmp_path: Path, tidegate: Command) -> None:
    until = (datetime.now(UTC) + timedelta(days=30)).isoformat()
    body = {"model": "flights", "feature": "dew", "until": until, "reason": "sensor swap"}
    with hub(tmp_path) as address:
        who = {name: {"authorization": f"Bearer {token}"} for name, token in TOKENS.items()}
        path = f"{address}/api/v1/decisions/mute"
        assert httpx.get(f"{address}/health").status_code == 200
        assert httpx.get(f"{address}/api/v1/models").status_code == 401
        assert httpx.post(path, json=body, headers=who["anna"]).status_code == 403
        made = httpx.post(path, json=body, headers=who["ci"])
        assert made.status_code == 200, made.text
        assert (
            httpx.post(
                f"{address}/api/v1/releases", json={"model": "spam", "version": 1}, headers=who["ci"]
            ).status_code
            == 404
        )
        lines = httpx.get(f"{address}/api/v1/audit", headers=who["boss"]).text.splitlines()
        assert len(lines) == 3

    config = tmp_path / "hub.toml"
    copied = tidegate("audit", "export", tmp_path / "copy", "--config", config)
    assert (copied.returncode, "3 lines" in copied.stdout) == (0, True)
    whole = tidegate("audit", "verify", "--config", config, "--export", tmp_path / "copy")
    assert (whole.returncode, whole.stdout.count("nothing is wrong")) == (0, 2)

    with closing(sqlite3.connect(tmp_path / "hub" / "hub.db")) as database:
        database.execute("DELETE FROM audit_lines WHERE number = 2")
        database.commit()
    broken = tidegate("audit", "verify", "--config", config)
    assert broken.returncode == 1
    assert "line 2 is missing" in broken.stdout + broken.stderr
    assert tidegate("audit", "verify", "--export", tmp_path / "copy", "--alone").returncode == 0


def test_a_release_that_waits_is_approved_on_the_command_line_with_a_key(tmp_path: Path, tidegate: Command) -> None:
    new_key(tmp_path / "ring", name="lead", role=Role.OVERRIDE)
    rule = f'[[approval]]\nmodels = ["flights*"]\nby = ["boss"]\nsigned = true\ntrusted = "{tmp_path}/ring"'
    database = Database(f"sqlite:///{tmp_path}/hub/hub.db")
    (tmp_path / "hub").mkdir()
    database.migrate()
    with database.writing() as session:
        row = request_release(database, session, Request("flights", 3, "api", "ci"))
        row.state, row.digest = ReleaseState.WAITING, "ab" * 32
    token = tmp_path / "token"
    token.write_text(TOKENS["boss"])
    token.chmod(0o600)
    with hub(tmp_path, rule) as address:
        common = ("approve", "1", "--hub", address, "--token-file", token, "--reason", "looked at it")
        unsigned = tidegate(*common)
        assert (unsigned.returncode, "have to be signed" in unsigned.stderr) == (2, True)
        signed = tidegate(*common, "--key", tmp_path / "ring" / "lead.key")
        assert signed.returncode == 0, signed.stderr
        assert "boss approved it, signed by lead: looked at it" in signed.stdout
        nobody = tidegate("approve", "1", "--hub", address, "--reason", "x")
        assert "nobody is signed in" in nobody.stderr
    with database.reading() as session:
        assert session.scalars(select(ReleaseRow.state)).one() is not ReleaseState.WAITING
    database.close()


def test_a_token_does_not_travel_for_all_to_read(tmp_path: Path, tidegate: Command) -> None:
    done = tidegate("approve", "1", "--hub", "http://hub.example.com", "--token-file", tmp_path / "t", "--reason", "x")
    assert (done.returncode, "use https://" in done.stderr) == (2, True)
