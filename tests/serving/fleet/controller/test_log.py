"""What a controller says of its nodes' logs to whoever judges a version."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.messages import message
from tidegate_serving.fleet.controller.log import FleetLog


def request() -> Any:
    return message("tidegate.v1.ReadLogRequest")(servable="m", versions=[1])


def log_of(root: Path) -> FleetLog:
    return FleetLog(lambda: [str(root / "a"), str(root / "b")])


def test_without_a_file_of_the_model_the_list_is_empty_and_with_one_it_has_to_be_seen(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert [list(piece.present) for piece in log.read(request())] == [[]]
    file = tmp_path / "b" / "model=m" / "version=1" / "date=2026-01-01" / "part.parquet"
    file.parent.mkdir(parents=True)
    file.touch()
    assert [list(piece.present) for piece in log.read(request())] == [[]], "it may have come since the caller looked"
    os.utime(file, (time.time() - 60, time.time() - 60))
    with pytest.raises(FailedPrecondition, match=f"lie below {tmp_path}, .* mount it there"):
        list(log.read(request()))


def test_nodes_without_a_log_are_said(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="no node of the fleet keeps an inference log"):
        list(FleetLog(lambda: ["", ""]).read(request()))
    with pytest.raises(FailedPrecondition, match="some engines of the group keep no inference log"):
        FleetLog(lambda: [str(tmp_path / "a"), ""]).root()
