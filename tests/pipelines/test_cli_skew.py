"""`tidegate skew` and `tidegate.skew` on two tables of any form: no model, no log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tests.support.command import Command
from tests.validation import world

import tidegate
from tidegate_serving.contract.errors import InvalidInput, NotFound

LATER = world.FIRST_DAY + 60


@pytest.fixture
def tidegate_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def training() -> pa.Table:
    return world.parcels(12_000, seed=1, days=40)


def served(seed: int = 2) -> pa.Table:
    return world.parcels(2100, seed=seed, days=7, first_day=LATER)


def in_miles() -> pa.Table:
    return world.scaled(served(), "size", 1.609344)


FORMS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "frame": lambda table, _: table.to_pandas(),
    "arrow table": lambda table, _: table,
    "mapping": lambda table, _: table.to_pydict(),
    "parquet": lambda table, path: pq.write_table(table, path / "x.parquet") or path / "x.parquet",
    "csv": lambda table, path: pyarrow.csv.write_csv(table, path / "x.csv") or path / "x.csv",
    "feather": lambda table, path: pyarrow.feather.write_feather(table, path / "x.arrow") or path / "x.arrow",
}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_two_tables_is_compared(form: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    before, now = FORMS[form](training(), tmp_path / "a"), FORMS[form](in_miles(), tmp_path / "b")
    found = tidegate.skew(before, now, time=world.TIME, label=world.LABEL, report=str(tmp_path / "page")).report
    assert found.outcome.value == "FAIL"
    assert found.findings[0].subject == "size"
    assert (found.findings[0].cause or {})["factor"] == pytest.approx(1.609344, rel=1e-3)
    assert {found.feature(name).outcome.value for name in ("weight", "depot", "late")} == {"PASS"}
    assert "size" in (tmp_path / "page" / "index.html").read_text()


def write(table: pa.Table, path: Path) -> str:
    pq.write_table(table, path)
    return str(path)


def test_the_command_takes_patterns_and_prints_text_or_json(tidegate_command: Command, tmp_path: Path) -> None:
    whole = training()
    for part in range(3):
        write(whole.slice(part * 4000, 4000), tmp_path / f"2013-{part}.parquet")
    options = ("--time", world.TIME, "--ignore", world.LABEL)
    right = tidegate_command("skew", tmp_path / "2013-*.parquet", write(served(), tmp_path / "right.parquet"), *options)
    assert right.returncode == 0, right.stdout + right.stderr
    wrong = write(in_miles(), tmp_path / "wrong.parquet")
    done = tidegate_command("skew", tmp_path / "2013-*.parquet", wrong, *options, "--report", tmp_path / "page")
    assert done.returncode == 1
    assert "kilometres against miles" in done.stdout.replace("\n", " ")
    assert (tmp_path / "page" / "skew.json").is_file()
    printed = tidegate_command("skew", tmp_path / "2013-*.parquet", wrong, *options, "--output", "json")
    assert json.loads(printed.stdout)["findings"][0]["subject"] == "size"
    assert world.LABEL not in printed.stdout


def test_one_undecided_column_is_no_no(tidegate_command: Command, tmp_path: Path) -> None:
    """A column of which there are three values in the window says nothing, and the others are fine."""
    mostly_empty = np.full(2100, np.nan)
    mostly_empty[:3] = [1.5, 2.5, 3.5]
    before = world.with_column(
        training(), "rare", np.where(np.arange(12_000) % 700 == 0, np.arange(12_000) * 0.37, np.nan)
    )
    now = world.with_column(served(), "rare", mostly_empty)
    found = tidegate.skew(before, now, time=world.TIME, label=world.LABEL).report
    assert found.feature("rare").outcome.value == "INCONCLUSIVE"
    assert found.outcome.value == "PASS"
    assert "nothing can be told" in found.sentence
    files = write(before, tmp_path / "a.parquet"), write(now, tmp_path / "b.parquet")
    done = tidegate_command("skew", *files, "--time", world.TIME, "--label", world.LABEL)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tables_of_a_few_rows_say_that_nothing_can_be_told(tidegate_command: Command, tmp_path: Path) -> None:
    few = write(served().slice(0, 4), tmp_path / "few.parquet")
    done = tidegate_command("skew", write(training(), tmp_path / "a.parquet"), few, "--ignore", world.TIME)
    assert done.returncode == 1
    assert "too few" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time": "when"}, "reference data has no column 'when'"),
        ({"ignore": ("nothing",)}, "'nothing' that is to be ignored"),
        ({"since": 1}, "since means nothing for two tables"),
        ({"log_root": Path("log")}, "either reference and current"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        tidegate.skew(training(), served(), **options)


def test_a_pattern_that_fits_nothing_and_an_empty_table_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file fits"):
        tidegate.skew(str(tmp_path / "*.parquet"), served())
    with pytest.raises(InvalidInput, match="current data has no rows"):
        tidegate.skew(training(), pd.DataFrame({"size": []}))


def test_a_version_or_a_log_in_the_place_of_a_table_is_told_what_to_do(
    tmp_path: Path, tidegate_command: Command
) -> None:
    table, version, log = tmp_path / "today.parquet", tmp_path / "models/parcels/1", tmp_path / "log"
    pq.write_table(served(), table)
    version.mkdir(parents=True)
    (version / "manifest.json").write_text("{}")
    (log / "model=parcels/version=1").mkdir(parents=True)
    done = tidegate_command("skew", version, table)
    assert done.returncode == 2
    assert "is a version's directory" in done.stderr
    assert "(--log)" in done.stderr
    for root in (log, tmp_path):
        done = tidegate_command("skew", table, root)
        assert done.returncode == 2
        assert f"tidegate skew models/NAME/VERSION --log {root}" in done.stderr


def test_a_column_of_the_reference_alone_may_be_the_label(tidegate_command: Command, tmp_path: Path) -> None:
    before = write(training(), tmp_path / "before.parquet")
    now = write(served().drop_columns([world.LABEL]), tmp_path / "now.parquet")
    done = tidegate_command("skew", before, now, "--time", world.TIME)
    assert done.returncode == 1
    assert "name it with --label where it is the label, or leave it out with --ignore" in done.stderr
    named = tidegate_command("skew", before, now, "--time", world.TIME, "--label", world.LABEL)
    assert named.returncode == 0, named.stderr
