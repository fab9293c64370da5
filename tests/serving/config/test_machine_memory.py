"""The memory that the process may use, from control groups of both versions, and the share of it that requests get."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.machine_memory import usable_memory
from tidegate_serving.config.view import diff, effective

GB = 1 << 30


@pytest.mark.parametrize(
    ("own", "file", "limit"),
    [
        ("0::/pod/box\n", "pod/memory.max", GB),
        ("0::/outside/of/the/container\n", "memory.max", GB),
        ("4:cpu:/\n3:memory,other:/pod\n", "memory/pod/memory.limit_in_bytes", GB),
        ("0::/pod\n", "pod/memory.max", None),
    ],
)
def test_the_least_limit_around_the_process_counts(tmp_path: Path, own: str, file: str, limit: int | None) -> None:
    (tmp_path / "own").write_text(own)
    (tmp_path / "groups" / file).parent.mkdir(parents=True)
    (tmp_path / "groups" / file).write_text(f"{'max' if limit is None else limit}\n")
    found = usable_memory(tmp_path / "groups", tmp_path / "own")
    assert found == limit if limit else found > GB // 4


def test_requests_get_a_quarter_unless_the_config_says_how_much() -> None:
    assert EngineConfig().request_memory == usable_memory() // 4
    assert EngineConfig(request_memory_bytes=GB).request_memory == GB
    assert EngineConfig().worker_memory == usable_memory() // 4 * 3
    assert EngineConfig(worker_memory_bytes=GB).worker_memory == GB


def test_a_pod_that_was_resized_has_the_same_config_and_people_see_the_bytes_in_use() -> None:
    before, after = EngineConfig(usable_at_start=8 * GB), EngineConfig(usable_at_start=4 * GB)
    assert diff(before, after).changes == ()
    (shown,) = [value for value in effective(before) if value.key == "request_memory_bytes"]
    assert (shown.value, shown.origin) == (0, f"default, in use: {2 * GB} bytes")
