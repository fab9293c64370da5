"""Files in a log that are no files of a log, or were damaged: named with what to do, wherever the log is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.log_blocks import FakeBlock, write_log

from tidegate_operators.steps.canary_log import read_numbers
from tidegate_operators.steps.canary_pairs import StepBegun, read_pairs
from tidegate_operators.steps.log_upkeep import erase_from_log
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.inference_log.compare import compare
from tidegate_serving.inference_log.reader import logged_until, places_of
from tidegate_validation.canary.rule import CanaryMode, CanaryRule
from tidegate_validation.golden_requests import Recording, record_golden_requests
from tidegate_validation.statistics.window import log_window

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def _rows(root: Path) -> int:
    with log_window(root, model="m", version=1) as window:
        return window.rows


def _recorded(root: Path) -> pa.Table:
    return record_golden_requests(root, Recording("m", 1), Path(mkdtemp(dir=root)) / "golden").table


READERS: dict[str, Callable[[Path], Any]] = {
    "skew": _rows,
    "receipts": lambda root: places_of(root, "request_1_5.0"),
    "newest": lambda root: logged_until(root, "m"),
    "golden requests": lambda root: _recorded(root).to_pydict(),
    "comparison": lambda root: compare(root, "m", primary_version=1, shadow_version=1, since=LONG_AGO),
    "canary": lambda root: read_numbers(root, ServableId("m", 1), 1, LONG_AGO, CanaryRule()),
    "canary on traffic": lambda root: read_pairs(
        root, ServableId("m", 1), 1, LONG_AGO, StepBegun(0, LONG_AGO), CanaryRule(mode=CanaryMode.TRAFFIC)
    ),
}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "no Parquet": lambda data: b"x" * 3000,
    "cut": lambda data: data[: len(data) // 2],
    "written over": lambda data: data[:4] + b"\0" * 900 + data[904:],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    values = np.arange(40, dtype="f4")
    for version in range(2):
        write_log(
            tmp_path, FakeBlock({"x": values}, {"y": values}, request_id=[f"request_{version}_{n}" for n in values])
        )
    return tmp_path


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_with_what_to_do(reader: str, damage: str, root: Path) -> None:
    _, last = sorted(root.rglob("*.parquet"))
    last.write_bytes(DAMAGES[damage](last.read_bytes()))
    named = f"{last.name}.*" if damage != "written over" else "TProtocolException"
    with pytest.raises(InvalidInput, match=rf"{named}.*: move (the damaged file|it) out of the log$"):
        READERS[reader](root)


@pytest.mark.parametrize("reader", READERS)
def test_pipes_and_devices_are_passed_over(reader: str, root: Path) -> None:
    read = repr(READERS[reader](root))
    folder = next(root.rglob("*.parquet")).parent
    for name in ("0.parquet", "1.parquet"):
        os.mkfifo(folder / name)
    (folder / "2.parquet").symlink_to("/dev/zero")
    assert repr(READERS[reader](root)) == read


def test_a_pipe_keeps_nobody_from_erasing(root: Path) -> None:
    folder = next(root.rglob("*.parquet")).parent
    os.mkfifo(folder / "0.parquet")
    found = erase_from_log(root, requests=["request_0_1.0"], grace=0)
    assert (found.rows, found.skipped) == (1, ())
    assert (folder / "0.parquet").is_fifo()


def test_rows_behind_a_link_are_not_said_to_be_erased(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    first, _ = sorted(root.rglob("*.parquet"))
    elsewhere = tmp_path_factory.mktemp("elsewhere") / first.name
    first.rename(elsewhere)
    first.symlink_to(elsewhere)
    found = erase_from_log(root, requests=["request_0_1.0", "request_1_1.0"], grace=0)
    assert found.rows == 0
    assert [one.reason for one in found.skipped] == [
        f"{first.name} is a link, and its rows lie elsewhere: put the file itself there"
    ]
