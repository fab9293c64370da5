"""Files of the log go while it is read, as erasing and compacting replace them: it is read again, and never half."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from tests.validation import world
from tests.validation.world import Served

from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.inference_log import reader
from tidegate_serving.inference_log.reader import read_again, scan
from tidegate_validation.statistics import window
from tidegate_validation.statistics.counting import types_of


def test_what_reads_a_file_that_goes_is_called_again(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    calls = []

    def read() -> list[Any]:
        calls.append(file.exists())
        if len(calls) == 3:
            pq.write_table(world.parcels(7, seed=1, days=1), file)
        return duckdb.execute(f"SELECT count(*) FROM read_parquet('{file}')").fetchall()

    assert read_again(read) == [(7,)]
    assert calls == [False, False, False]


def test_files_that_never_stay_are_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"5 times on end .*gone\.parquet"):
        read_again(lambda: duckdb.execute(f"SELECT * FROM read_parquet('{tmp_path}/gone.parquet')"))


def test_a_window_is_whole_although_a_file_went_while_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write_log(tmp_path, Served(world.parcels(30, seed=1, days=1)))
    asked: list[str] = []

    def types(connection: Any, relation: str) -> dict[str, str]:
        asked.append(relation)
        return types_of(connection, f"read_parquet('{tmp_path}/gone.parquet')" if len(asked) == 1 else relation)

    monkeypatch.setattr(window, "types_of", types)
    with window.log_window(tmp_path, model=world.NAME, version=1) as found:
        assert found.rows == 30
    assert asked[0] == asked[1]


def test_a_file_that_goes_before_its_format_is_looked_at_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write_log(tmp_path, Served(world.parcels(30, seed=1, days=1), block="b"))
    folder = next(tmp_path.glob("model=*/version=*/date=*"))
    glob = Path.glob
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [folder / "gone.parquet", *glob(self, pattern)].__iter__())
    assert "read_parquet" in scan(tmp_path, world.NAME, 1)
    assert reader._check_format(folder / "gone.parquet") is False
