"""Old versions leave the repository, and never one that a real engine serves, keeps, wants or would go back to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.models.versions import adding, edit_manifest, publish

from tidegate_operators.steps.clean_up import Retention, clean_up
from tidegate_serving.config import EngineConfig, ModelConfig
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable
from tidegate_serving.contract.repository import report_directory, verdict_path, versions
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient
from tidegate_serving.engine import Engine
from tidegate_serving.files import remove_folder

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Versions 2 to 8 of `m`, published on the first days of 2026."""
    for version in range(2, 9):
        edit_manifest(
            publish(tmp_path / "models", "m", version, adding(version)), created_at=f"2026-01-0{version}T00:00:00Z"
        )
    return tmp_path / "models"


@pytest.fixture
def engine(repository: Path, tmp_path: Path) -> Iterator[Engine]:
    """Serves version 4, which a label names, and 2, which another does."""
    config = EngineConfig(
        grpc_address="127.0.0.1:0",
        rest_address="",
        control_address="127.0.0.1:0",
        repository=repository,
        state_directory=tmp_path / "state",
        allow_unverified=True,
        models={"m": ModelConfig(versions="specific:2,4", labels={"stable": 4, "old": 2})},
    )
    with Engine(config) as engine:
        yield engine


def cleaned(repository: Path, engine: Engine, retention: Retention, dry_run: bool = False) -> dict[str, object]:
    done = clean_up(
        repository=repository,
        controls=[engine.addresses.control],
        retention=retention,
        dry_run=dry_run,
        now=NOW,
    )
    return {
        "removed": [identity.version for identity in done.removed],
        "spared": {identity.version: reason for identity, reason in done.spared},
        "left": versions(repository, "m"),
        "freed": done.freed_bytes > 0,
    }


def test_what_serves_and_what_a_label_names_stays_however_old(repository: Path, engine: Engine) -> None:
    verdict_path(repository / "m" / "3").write_text("{}")
    report_directory(repository / "m" / "3").mkdir()
    done = cleaned(repository, engine, Retention(keep=2))
    assert done == {
        "removed": [3, 5, 6],
        "spared": {
            2: "label 'old' names it",
            4: "label 'stable' names it",
        },
        "left": [2, 4, 7, 8],
        "freed": True,
    }
    assert verdict_path(repository / "m" / "3").exists(), "verdicts are history"
    assert not report_directory(repository / "m" / "3").exists()
    assert sorted(path.name for path in (repository / "m").glob(".*")) == []


def test_an_accepted_reference_goes_with_its_version_and_so_does_what_a_crash_left_of_it(
    repository: Path, engine: Engine
) -> None:
    of_the_product = [
        *("3.reference", ".3.reference.newer", ".3.reference.01234567.aside", ".3.reference.89abcdef.removed"),
        *("..3.reference.newer.01234567.aside", "..3.reference.newer.01234567.removed"),
    ]
    others = ["3.references", ".3.reference.old", ".3.reference.mine.aside", ".3.reference.newer.mine", "13.reference"]
    for name in [*of_the_product, *others, "4.reference", ".4.reference.newer"]:
        (repository / "m" / name).mkdir()
    cleaned(repository, engine, Retention(keep=2), dry_run=True)
    assert all((repository / "m" / name).is_dir() for name in of_the_product)
    cleaned(repository, engine, Retention(keep=2))
    left = {path.name for path in (repository / "m").iterdir() if "reference" in path.name}
    assert left == {*others, "4.reference", ".4.reference.newer"}


def test_what_a_clean_up_was_killed_in_the_middle_of_goes_with_the_next(
    repository: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository / "m"
    for name in (".1.01234567.removed", ".1.report.89abcdef.removed", ".1.mine.removed", ".notes.01234567.removed"):
        (folder / name).mkdir()
    report_directory(folder / "3").mkdir()
    cleaned(repository, engine, Retention(keep=2), dry_run=True)
    assert len(list(folder.glob(".*.removed"))) == 4
    done: list[Path] = []

    def killed_at_the_second(path: Path) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(path)
        remove_folder(path)

    with monkeypatch.context() as patch:
        patch.setattr("tidegate_operators.steps.clean_up.remove_folder", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            cleaned(repository, engine, Retention(keep=2))
    assert cleaned(repository, engine, Retention(keep=2))["removed"] == [3, 5, 6]
    assert not report_directory(folder / "3").exists()
    assert {path.name for path in folder.glob(".*.removed")} == {".1.mine.removed", ".notes.01234567.removed"}


def test_what_another_clean_up_removes_at_this_moment_is_passed_over(
    repository: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = repository / "m" / ".1.01234567.removed"
    left.mkdir()

    def removed_meanwhile(path: Path) -> int:
        remove_folder(left)
        return 0

    monkeypatch.setattr("tidegate_operators.steps.clean_up._bytes", removed_meanwhile)
    assert cleaned(repository, engine, Retention(keep=2))["removed"] == [3, 5, 6]


def test_what_served_before_stays_for_the_way_back(repository: Path, engine: Engine) -> None:
    with ControlClient(engine.addresses.control) as control:
        control.pin("m", 6, requested_by="test", reason="try it")
        control.wait_until("m", 6, State.AVAILABLE, 20.0)
    done = cleaned(repository, engine, Retention(keep=1))
    spared = done["spared"]
    assert isinstance(spared, dict)
    assert {2, 4, 6} <= set(spared)
    assert done["removed"] == [number for number in range(2, 8) if number not in spared]


def test_the_newest_below_what_serves_stays_where_the_engine_remembers_no_way_back(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        publish(tmp_path / "models", "m", version, adding(version))
    config = EngineConfig(
        grpc_address="127.0.0.1:0",
        rest_address="",
        control_address="127.0.0.1:0",
        repository=tmp_path / "models",
        allow_unverified=True,
    )
    with Engine(config) as engine:
        done = cleaned(tmp_path / "models", engine, Retention(keep=1))
    assert (done["removed"], done["spared"]) == ([1], {2: "a rollback would go back to it"})


def test_age_counts_from_publication(repository: Path, engine: Engine) -> None:
    since_fifth = NOW - datetime(2026, 1, 5, tzinfo=UTC)
    done = cleaned(repository, engine, Retention(keep=1, older_than=since_fifth))
    assert done["removed"] == [3, 5]
    assert done["left"] == [2, 4, 6, 7, 8]


def test_a_dry_run_removes_nothing(repository: Path, engine: Engine) -> None:
    done = cleaned(repository, engine, Retention(keep=2), dry_run=True)
    assert done["removed"] == [3, 5, 6]
    assert done["left"] == list(range(2, 9))


def test_without_an_engine_that_answers_nothing_is_removed(repository: Path) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
        clean_up(repository=repository, controls=["127.0.0.1:9"], retention=Retention())
    with pytest.raises(InvalidInput, match="no engine is named"):
        clean_up(repository=repository, controls=[], retention=Retention())
    with pytest.raises(NotFound, match="is no folder"):
        clean_up(repository=repository / "m" / "2" / "no", controls=["127.0.0.1:9"], retention=Retention())
    with pytest.raises(InvalidInput, match="keep is 0"):
        Retention(keep=0)
    assert versions(repository, "m") == list(range(2, 9))


def test_the_command_says_what_goes_and_what_stays(
    repository: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tidegate = Command(monkeypatch, capsys)
    control = ("--control", engine.addresses.control)
    done = tidegate("clean-up", repository, "--keep", "2", "--older-than", "1d", *control)
    assert done.returncode == 0, done.stderr
    assert str(ServableId("m", 5)) in done.stdout
    assert "3 versions, freed" in done.stdout
    assert "label 'stable' names it" in done.stdout
    assert versions(repository, "m") == [2, 4, 7, 8]
    assert tidegate("clean-up", repository, "--older-than", "soon", *control).returncode == 2


def test_an_age_is_a_span(repository: Path, engine: Engine) -> None:
    assert cleaned(repository, engine, Retention(keep=1, older_than=timedelta(days=400)))["removed"] == []
