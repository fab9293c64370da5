"""`tidegate log` and `tidegate golden`: what they do to a log, and what they say."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.command import Command
from tests.validation import world
from tests.validation.world import Served

from tidegate_serving.contract import log_record
from tidegate_serving.inference_log.reader import connect


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        world.write_log(tmp_path / "log", Served(world.parcels(10, seed=number), block=f"b{number}"))
    for file in (tmp_path / "log").rglob("*.parquet"):
        os.utime(file, (0, 0))
    return Command(monkeypatch, capsys)


def rows(root: Path) -> int:
    with connect(root) as connection:
        return int(connection.execute("SELECT count(*) FROM log").fetchone()[0])


def test_a_log_is_compacted_erased_from_and_cut(tidegate: Command, tmp_path: Path) -> None:
    done = tidegate("log", "compact", "log", "--files", "3", "--settled", "30m")
    assert done.returncode == 0, done.stderr
    assert "3 files of 1 day became 1" in done.stdout
    assert "erased 1 row from 1 file" in tidegate("log", "erase", "log", "--request", "b1-4").stdout
    east = tidegate("log", "erase", "log", "--where", "in.depot=east").stdout
    assert "from 1 file" in east
    left = rows(tmp_path / "log")
    assert 0 < left < 29
    shown = tidegate("log", "retain", "log", "--days", "2", "--dry-run").stdout
    assert "would remove" in shown
    assert rows(tmp_path / "log") == left
    assert "freed" in tidegate("log", "retain", "log", "--days", "2").stdout
    assert rows(tmp_path / "log") == 0


def test_mistakes_are_told(tidegate: Command, tmp_path: Path) -> None:
    assert "not COLUMN=VALUE" in tidegate("log", "erase", "log", "--where", "east").stderr
    assert "nothing says what goes" in tidegate("log", "retain", "log").stderr
    broken_file = next((tmp_path / "log").rglob("*.parquet")).with_name("0-broken.parquet")
    broken_file.write_bytes(b"none")
    os.utime(broken_file, (0, 0))
    broken = tidegate("log", "compact", "log", "--files", "2", "--settled", "1s")
    assert broken.returncode == 2
    assert "0-broken.parquet cannot be read" in broken.stdout + broken.stderr


def test_golden_requests_are_recorded(tidegate: Command, tmp_path: Path) -> None:
    for file in (tmp_path / "log").rglob("*.parquet"):
        table = pq.read_table(file)
        answers = pa.array([0.5] * table.num_rows)
        pq.write_table(table.append_column(log_record.output_column("probability"), answers), file)
    record = ("golden", "record", world.NAME, "--version", "1", "--log", "log", "--out", "golden.parquet")
    done = tidegate(*record, "--requests", "12")
    assert done.returncode == 0, done.stderr
    assert "recorded 12 requests (12 rows) of parcels:1" in done.stdout
    assert "is not among" in tidegate(*record, "--request", "nobody").stderr


def test_a_logs_past_is_looked_back_on_with_labels_apart(tidegate: Command, tmp_path: Path) -> None:
    """From an inference log, and a file of labels that is out of order, says one twice, and knows a stranger."""
    table = world.parcels(3000, seed=5, days=30)
    world.write_log(tmp_path / "past", Served(table, block="p"))
    late = table[world.LABEL].to_pylist()
    lines = [f"p-{row},{late[row]},2" for row in reversed(range(2900))]
    lines += [f"p-7,{1 - late[7]},1", "p-stranger,1,2"]
    (tmp_path / "labels.csv").write_text("request_id,late,at\n" + "\n".join(lines) + "\n")
    for version in (1, 2):
        world.publish(tmp_path / "models", version, world.Draft(training=world.parcels(1000, seed=version)))
    days = [f"{date.fromordinal(date(1970, 1, 1).toordinal() + world.FIRST_DAY + after)}" for after in (14, 22)]
    (tmp_path / "released.csv").write_text(f"version,released\n1,{days[0]}\n2,{days[1]}\n")
    options = ("--label", "late", "--labels", "labels.csv", "--released", "released.csv", "--gates", "quality")
    done = tidegate(
        "backtest", "models/parcels", "--logged", "past", *options, "--step", "7", "--days", "14", "--report", "out"
    )
    assert done.returncode == 0, done.stderr
    assert "0 of 2 past releases would have been refused" in done.stdout
    document = json.loads((tmp_path / "out" / "backtest.json").read_text())
    assert document["rows"] == 3000
    assert [one["outcome"] for one in document["releases"]] == ["PASS", "PASS"]
    assert document["unjudged"] == []
