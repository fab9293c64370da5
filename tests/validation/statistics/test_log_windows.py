"""Which rows of the inference log a window holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.log_blocks import FakeBlock, write_log

from tidegate_validation.statistics import window as module
from tidegate_validation.statistics.counting import types_of
from tidegate_validation.statistics.window import log_window, logged_answers


def test_each_version_keeps_the_rows_of_the_signature_that_it_is_judged_by(tmp_path: Path) -> None:
    for version, signature, rows in ((1, "serving_default", 3), (1, "other", 7), (2, "other", 2)):
        x = np.arange(rows, dtype="f4")
        write_log(tmp_path, FakeBlock({"x": x}, {"y": x}, version=version, signature=signature))
    for asked, rows in ((1, 3), (2, 2), (None, 5)):
        with log_window(tmp_path, model="m", version=asked) as window:
            assert window.rows == rows


def test_an_input_that_another_signature_has_of_another_type_keeps_its_own(tmp_path: Path) -> None:
    x = np.arange(3, dtype="f4")
    write_log(tmp_path, FakeBlock({"x": x}, {"y": x}))
    write_log(tmp_path, FakeBlock({"x": np.array([b"a"], object)}, {"y": np.array([b"b"], object)}, signature="text"))
    with log_window(tmp_path, model="m", version=1) as window:
        assert (window.rows, window.types["in.x"]) == (3, "FLOAT")
    answers = logged_answers(tmp_path, model="m", version=1)
    assert answers["answer"].to_pylist() == [0.0, 1.0, 2.0]


def test_rows_of_one_of_several_signatures_are_found_in_the_files_that_replaced_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(3, dtype="f4")
    file = write_log(tmp_path, FakeBlock({"x": x}, {"y": x}))
    write_log(tmp_path, FakeBlock({"x": np.array([b"a"], object)}, {"y": np.array([b"b"], object)}, signature="text"))

    def compacted(connection: Any, relation: str) -> dict[str, str]:
        nonlocal file
        if file.name in relation and "compacted" not in relation:
            file = file.rename(file.with_name(f"compacted-{file.name}"))
        return types_of(connection, relation)

    monkeypatch.setattr(module, "types_of", compacted)
    with log_window(tmp_path, model="m", version=1) as window:
        assert window.rows == 3
        file = file.rename(file.with_name("again.parquet"))
        assert window.named is not None
        assert window.connection.execute(f"SELECT count(*) FROM {window.named()}").fetchall() == [(3,)]
    assert logged_answers(tmp_path, model="m", version=1).num_rows == 3
    assert file.name == "compacted-again.parquet"
