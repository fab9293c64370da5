"""What the support bundle holds: enough to help, and no secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.view import ConfigValue
from tidegate_serving.journal import Entry, Journal, Kind
from tidegate_serving.running.recent_lines import KEPT, LOGGER, RecentLines
from tidegate_serving.running.support import REMOVED, Support, without_secret


@pytest.fixture
def lines() -> Iterator[RecentLines]:
    lines = RecentLines()
    lines.attach()
    yield lines
    lines.detach()


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("platforms.s3.secret_access_key", "abc", REMOVED),
        ("platforms.s3.token", "abc", REMOVED),
        ("storage.password", "", REMOVED),
        ("storage.password", None, None),
        ("trusted_keys", ["keys/validator.pub"], ["keys/validator.pub"]),
        ("repository", "s3://me:mine@store/models", "s3://store/models"),
        ("poll_seconds", 1.0, 1.0),
    ],
)
def test_secrets_are_taken_out_of_the_config(key: str, value: object, shown: object) -> None:
    assert without_secret(ConfigValue(key, value, "default")).value == shown


def test_files_hold_what_helps(lines: RecentLines) -> None:
    journal = Journal(None)
    journal.add(Entry(Kind.CONTROL, "pin", "m is pinned"))
    logging.getLogger(f"{LOGGER}.somewhere").warning("read s3://me:mine@store/m with token=hush-hush")
    support = Support(
        lambda: EngineConfig(repository=Path("/models")), lambda: {"tidegate_batches_total": 3.0}, journal, lines
    )
    files = {name: data.decode() for name, data in support.files().items()}
    assert 'repository = "/models"' in files["config.toml"]
    assert '"text": "m is pinned"' in files["journal.jsonl"]
    assert files["metrics.txt"] == "tidegate_batches_total 3\n"
    assert "read s3://store/m with token=(removed)" in files["log.txt"]
    assert '"numpy"' in files["libraries.json"]
    assert "hush-hush" not in "".join(files.values())


def test_only_the_newest_lines_are_kept_and_nothing_after_the_end(lines: RecentLines) -> None:
    logger = logging.getLogger(LOGGER)
    for number in range(KEPT + 10):
        logger.warning("line %d", number)
    kept = lines.text().splitlines()
    assert len(kept) == KEPT
    assert kept[0].endswith("line 10")
    lines.detach()
    logger.warning("afterwards")
    assert "afterwards" not in lines.text()
