"""Where a server listens, for whoever started it: a file that is there whole, or a sentence with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.runtime.ready_file import write_ready_file
from tidegate_serving.runtime.running_engine import EngineAddresses


def test_a_ready_file_that_cannot_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match=r"file/ready.json cannot be kept .*: mend the file system"):
        write_ready_file(tmp_path / "file" / "ready.json", EngineAddresses("", "", ""))
