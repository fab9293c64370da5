"""The file system source, polled by hand over real folders."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest
from tests.support.lifecycle.fakes import FakeTarget
from tests.support.models.versions import Validator, fill, make_validator, publish

from tidegate_serving.admission import Admission, AdmissionRecords, AdmitUnverified, VerdictAdmission
from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.file_system.source import NAME, FileSystemOptions, FileSystemSource
from tidegate_serving.sources.file_system.version_policy import VersionPolicy, parse_version_policy
from tidegate_serving.sources.file_system.watched import WatchOptions
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems


class Repository:
    def __init__(self, root: Path, versions: str = "latest:1", admission: Admission | None = None) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.target = FakeTarget()
        self.owners = Owners()
        self.problems = SourceProblems()
        options = FileSystemOptions(root, watch=WatchOptions(parse_version_policy(versions), poll_seconds=0))
        context = SourceContext(self.target, admission or AdmitUnverified(), self.owners, self.problems)
        self.source = FileSystemSource(options, context)

    def add(self, name: str, version: int) -> Path:
        return publish(self.root, name, version)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_the_newest_version_is_wanted(repository: Repository) -> None:
    for version in (1, 2, 20170111173521):
        repository.add("m", version)
    repository.source.poll()
    assert repository.target.numbers("m") == [20170111173521]
    wanted = repository.target.wanted["m"][0]
    assert wanted.payload is not None
    assert (wanted.payload.platform, wanted.payload.directory.name) == ("python", "20170111173521")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("latest:1", [42]), ("latest:3", [42, 33, 30]), ("all", [42, 33, 30, 17]), ("specific:17,30,99", [30, 17])],
)
def test_policies(tmp_path: Path, policy: str, expected: list[int]) -> None:
    repository = Repository(tmp_path / "repository", policy)
    for version in (17, 30, 33, 42):
        repository.add("m", version)
    repository.source.poll()
    assert repository.target.numbers("m") == expected


def test_a_servable_can_have_a_policy_of_its_own(tmp_path: Path) -> None:
    target = FakeTarget()
    options = FileSystemOptions(tmp_path, overrides={"m": WatchOptions(VersionPolicy(latest=2))})
    for version in (1, 2, 3):
        publish(tmp_path, "m", version)
        publish(tmp_path, "n", version)
    FileSystemSource(options, SourceContext(target, AdmitUnverified())).poll()
    assert (target.numbers("m"), target.numbers("n")) == ([3, 2], [3])


def test_a_half_copied_version_is_not_there(repository: Repository) -> None:
    repository.add("m", 1)
    half = repository.root / "m" / "2"
    fill(half, {"model.py": "class Model: ..."})
    repository.source.poll()
    assert repository.target.numbers("m") == [1]
    repository.add("m", 2)
    repository.source.poll()
    assert repository.target.numbers("m") == [2]


def test_leading_zeros_mean_the_same_version_and_other_names_mean_none(
    repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    directory = repository.add("m", 1)
    shutil.copytree(directory, directory.with_name("001"))
    for name in ("2.verdict.json", "three", ".4", "²", str(2**63)):
        (directory.parent / name).mkdir()
    with caplog.at_level(logging.WARNING):
        repository.source.poll()
    assert repository.target.numbers("m") == [1]
    payload = repository.target.wanted["m"][0].payload
    assert payload is not None
    assert payload.directory == directory
    assert "are the same version" in caplog.text


def test_a_servable_that_cannot_be_read_holds_up_no_other(
    repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    repository.add("a", 1)
    repository.add("b", 1)
    (repository.root / "-bad name").mkdir()
    repository.source.poll()
    repository.add("b", 2)
    broken = repository.root / "a"
    kept = broken.rename(repository.root / ".away")
    broken.symlink_to(broken)
    with caplog.at_level(logging.WARNING):
        repository.source.poll()
        repository.source.poll()
    assert repository.target.numbers("b") == [2]
    broken.unlink()
    kept.rename(broken)
    repository.source.poll()
    assert repository.target.numbers("a") == [1]


def test_a_listing_error_keeps_the_last_good_set(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    repository.add("m", 1)
    repository.source.poll()
    calls = len(repository.target.calls)
    real = os.scandir

    def fails(path: Path) -> object:
        if path.name == "m":
            raise OSError(5, "Input/output error", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", fails)
    with caplog.at_level(logging.WARNING):
        repository.source.poll()
        repository.source.poll()
    assert len(repository.target.calls) == calls
    assert caplog.text.count("what it last had is kept") == 1, "it complains once"


def test_a_repository_that_goes_away_keeps_everything(repository: Repository) -> None:
    repository.add("m", 1)
    repository.source.poll()
    shutil.move(repository.root, repository.root.with_name("away"))
    repository.source.poll()
    repository.root.mkdir()
    repository.source.poll()
    assert repository.target.numbers("m") == [1], "an empty folder may be a lost mount"


def test_a_name_folder_without_versions_unloads_and_lets_go(repository: Repository) -> None:
    directory = repository.add("m", 1)
    repository.source.poll()
    assert repository.owners.owner("m") == NAME
    shutil.rmtree(directory)
    repository.source.poll()
    assert repository.target.calls == [("m", [1])], "the folder may be about to vanish"
    repository.source.poll()
    assert repository.owners.owner("m") == ""
    repository.source.poll()
    assert repository.target.calls == [("m", [1]), ("m", [])]


def test_a_name_that_another_source_has_is_left_alone(repository: Repository, caplog: pytest.LogCaptureFixture) -> None:
    repository.owners.claim("m", "RPC Source")
    repository.add("m", 1)
    repository.add("n", 1)
    with caplog.at_level(logging.WARNING):
        repository.source.poll()
    assert list(repository.target.wanted) == ["n"]
    assert "servable 'm' belongs to the RPC Source" in caplog.text


def test_versions_without_a_verdict_are_shown_with_their_error_and_displace_nothing(tmp_path: Path) -> None:
    validator: Validator = make_validator(tmp_path / "keys")
    gate = VerdictAdmission([validator.public], AdmissionRecords(None))
    repository = Repository(tmp_path / "repository", "latest:1", gate)
    validator.sign(repository.add("m", 1))
    newer = repository.add("m", 2)
    repository.source.poll()
    assert repository.target.numbers("m") == [2, 1]
    assert repository.target.usable("m") == [1]
    error = repository.target.wanted["m"][0].error
    assert error is not None
    assert "2.verdict.json is missing" in error.message
    validator.sign(newer)
    repository.source.poll()
    assert repository.target.usable("m") == repository.target.numbers("m") == [2]


def test_a_manifest_of_another_version_is_an_error_of_that_version_only(repository: Repository) -> None:
    directory = repository.add("m", 1)
    shutil.copytree(directory, directory.with_name("2"))
    repository.source.poll()
    assert repository.target.usable("m") == [1]
    assert repository.target.wanted["m"][0].id == ServableId("m", 2)


def test_a_missing_repository_is_said_at_the_start(tmp_path: Path) -> None:
    options = FileSystemOptions(tmp_path / "nowhere")
    with pytest.raises(NotFound, match="nowhere is no folder"):
        FileSystemSource(options, SourceContext(FakeTarget(), AdmitUnverified())).start()
