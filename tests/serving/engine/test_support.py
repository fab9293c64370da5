"""What the support bundle holds: enough to help, and no secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.view import diff, diff_values, seen, to_toml
from tidegate_serving.control.support import ENGINE_LOGGER, LINES, RecentLines, Support
from tidegate_serving.journal import Entry, Journal, Kind
from tidegate_serving.redaction import REMOVED, hidden, without_secrets


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
        ("sources.object_store.options.key", "AKIA", REMOVED),
        ("sources.object_store.options.secret", "abc", REMOVED),
        ("sources.object_store.options.client_kwargs.aws_session_token", "abc", REMOVED),
        ("sources.object_store.options.account_key", "abc", REMOVED),
        ("sources.object_store.options.connection_string", "abc", REMOVED),
        ('sources."my source".password', "", REMOVED),
        ("sources.mine.password", None, None),
        ("sources.mine.stores", [{"password": "abc", "host": "h"}], [{"password": REMOVED, "host": "h"}]),
        ("sources.object_store.options.endpoint_url", "http://h", "http://h"),
        ("sources.object_store.url", "abfs://c/m?sig=abc&se=9", "abfs://c/m?sig=(removed)&se=9"),
        ("sources.object_store.url", "https://me:mine@h/m", "https://h/m"),
        ("sources.object_store.models.token-classifier", "latest:2", "latest:2"),
        ("models.token-classifier.path", "/models/secret-sauce", "/models/secret-sauce"),
        ("trusted_keys", ["keys/validator.pub"], ["keys/validator.pub"]),
        ("repository", "s3://me:mine@store/models", "s3://store/models"),
        ("poll_seconds", 1.0, 1.0),
    ],
)
def test_secrets_are_taken_out_of_the_config(key: str, value: object, shown: object) -> None:
    assert hidden(key, value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PUT with 'secret': 'abc', again", "PUT with 'secret': '(removed)', again"),
        ("aws_secret_access_key=abc", "aws_secret_access_key=(removed)"),
        ("no secret was found", "no secret was found"),
    ],
)
def test_secrets_are_taken_out_of_texts(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def store(**options: str) -> EngineConfig:
    return EngineConfig(sources={"object_store": {"url": "s3://b", "options": options}})


def test_a_difference_of_secrets_is_said_without_them() -> None:
    changes = diff(store(secret="old", key="same"), store(secret="new", key="same"))
    assert str(changes) == "sources.object_store.options.secret: another secret"
    assert "old" not in repr(changes)
    assert str(diff(store(), store(secret="new"))).startswith(
        'sources.object_store.options.secret: not set -> "(removed)"'
    )


def test_what_the_engine_gives_away_can_be_compared_but_for_its_secrets() -> None:
    engine, file = seen(store(secret="old", region="a")), seen(store(secret="new", region="b"))
    found = diff_values(engine, file)
    assert [change.key for change in found.changes] == ["sources.object_store.options.region"]
    assert found.unseen == ("sources.object_store.options.secret",)
    assert "not compared, because they are secret: sources.object_store.options.secret" in str(found)
    assert "# sources.object_store.options.secret is set, and a secret" in to_toml(engine)


def test_files_hold_what_helps(lines: RecentLines) -> None:
    journal = Journal(None)
    journal.add(Entry(Kind.CONTROL, "pin", "m is pinned"))
    logging.getLogger(f"{ENGINE_LOGGER}.somewhere").warning("read s3://me:mine@store/m with token=hush-hush")
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
    logger = logging.getLogger(ENGINE_LOGGER)
    for number in range(LINES + 10):
        logger.warning("line %d", number)
    kept = lines.text().splitlines()
    assert len(kept) == LINES
    assert kept[0].endswith("line 10")
    lines.detach()
    logger.warning("afterwards")
    assert "afterwards" not in lines.text()
