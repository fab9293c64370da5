"""The RPC Source's rules: a push is checked as a whole, kept on disk, told, and told again after a restart."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.lifecycle.fakes import FakeTarget
from tests.support.models.versions import Validator, digest_of, edit_manifest, flip, make_validator, publish

from tidegate_serving.admission import AdmissionRecords, VerdictAdmission
from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference
from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    NotAdmitted,
    NotFound,
    PermissionRefused,
    ResourceExhausted,
    Tampered,
    TidegateError,
    Unsupported,
)
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.journal import Journal
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.rpc.source import NAME, RpcSource, VersionChecks
from tidegate_serving.sources.rpc.store import FOLDER, DesiredStateStore


class Bench:
    def __init__(self, folder: Path, validator: Validator) -> None:
        self.folder = folder
        self.root = folder / "repository"
        self.validator = validator
        self.target = FakeTarget()
        self.owners = Owners()
        self.available: set[ServableId] = set()
        self.journal = Journal(None)
        self.source = self.make()

    def make(self) -> RpcSource:
        checks = VersionChecks(
            roots=(self.root,),
            admission=VerdictAdmission([self.validator.public], AdmissionRecords(None)),
            check_platform=installed_platforms(PlatformOptions()).check,
            available=self.available.__contains__,
        )
        store = DesiredStateStore(self.folder / "state")
        return RpcSource(self.target.set_desired_state, checks, store, self.owners, self.journal)

    def restart(self) -> None:
        self.source.stop()
        self.source.close()
        self.target, self.owners = FakeTarget(), Owners()
        self.source = self.make()
        self.source.start()

    def published(self, version: int) -> VersionReference:
        directory = publish(self.root, "m", version)
        self.validator.sign(directory)
        return VersionReference(version, directory, digest_of(directory))

    def push(
        self, *versions: VersionReference, labels: Mapping[str, int] | None = None, shadow: Shadow | None = None
    ) -> int:
        return self.source.set_desired_state(
            DesiredState("m", versions, labels or {}, shadow, requested_by="somebody", reason="because")
        )

    def refusal(self, kind: type[TidegateError], *versions: VersionReference) -> str:
        """What a push is refused with; it has changed nothing."""
        wanted, calls = dict(self.target.wanted), list(self.target.calls)
        desired = self.source.desired("m")
        with pytest.raises(kind) as refused:
            self.push(*versions)
        assert (self.target.wanted, self.target.calls) == (wanted, calls)
        assert self.source.desired("m") == desired
        return refused.value.message


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, make_validator(tmp_path / "keys"))
    yield bench
    bench.source.stop()
    bench.source.close()


def test_a_push_reaches_the_target_and_grows_the_revision(bench: Bench) -> None:
    one, two = bench.published(1), bench.published(2)
    assert bench.push(one, labels={"stable": 1}) == 1
    assert bench.push(one, two, labels={"stable": 1}, shadow=Shadow(2, 0.5)) == 2
    assert bench.target.numbers("m") == [1, 2]
    assert bench.target.label_sets == {"m": {"stable": 1}}
    assert bench.target.shadows == {"m": Shadow(2, 0.5)}
    assert bench.owners.owner("m") == NAME


@pytest.mark.parametrize("name", ["model.py", "manifest.json", "verdict"])
def test_one_flipped_byte_is_refused_and_named(bench: Bench, name: str) -> None:
    one, two = bench.published(1), bench.published(2)
    bench.push(one)
    directory = two.directory
    path = verdict_path(directory) if name == "verdict" else directory / name
    whole = path.read_bytes()
    for position in range(4, len(whole) - 4, max(1, len(whole) // 25)):
        path.write_bytes(whole)
        flip(path, position)
        assert path.name in bench.refusal(TidegateError, one, two)
    path.write_bytes(whole)
    bench.push(one, two)


def test_a_file_too_many_or_too_few_is_refused(bench: Bench) -> None:
    one = bench.published(1)
    extra = one.directory / "extra.py"
    extra.write_text("")
    assert "extra.py" in bench.refusal(Tampered, one)
    extra.unlink()
    (one.directory / "model.py").unlink()
    assert re.search(r"model\.py.* is missing", bench.refusal(Tampered, one))


def test_a_manifest_other_than_the_pushed_one_is_refused(bench: Bench) -> None:
    one = bench.published(1)
    edit_manifest(one.directory, created_at="2026-01-02T00:00:00Z")
    assert "manifest.json has SHA-256" in bench.refusal(Tampered, one)


def test_without_a_verdict_it_is_refused(bench: Bench) -> None:
    one = bench.published(1)
    verdict_path(one.directory).unlink()
    assert "1.verdict.json is missing" in bench.refusal(NotAdmitted, one)


def test_a_path_outside_the_roots_is_refused(bench: Bench, tmp_path: Path) -> None:
    elsewhere = publish(tmp_path / "elsewhere", "m", 1)
    bench.validator.sign(elsewhere)
    pushed = VersionReference(1, elsewhere, digest_of(elsewhere))
    assert "outside the engine's roots" in bench.refusal(PermissionRefused, pushed)
    bench.root.mkdir(exist_ok=True)
    link = bench.root / "1"
    link.symlink_to(elsewhere)
    assert "outside" in bench.refusal(PermissionRefused, replace(pushed, directory=link))
    dotted = f"{bench.root}/../elsewhere/m/1"
    assert "outside" in bench.refusal(PermissionRefused, replace(pushed, directory=Path(dotted)))
    assert "relative" in bench.refusal(InvalidInput, replace(pushed, directory=Path("m/1")))


def test_a_path_longer_than_any_is_refused_at_once(bench: Bench) -> None:
    one = bench.published(1)
    endless = replace(one, directory=Path("/" + "a/" * 400_000))
    assert "has 800,000 bytes: send one of 4,095 or less" in bench.refusal(InvalidInput, endless)


def test_a_directory_that_is_not_there_is_not_found(bench: Bench) -> None:
    one = bench.published(1)
    assert "is missing" in bench.refusal(NotFound, replace(one, directory=bench.root / "m" / "9"))


def test_an_unknown_platform_is_refused(bench: Bench) -> None:
    one = bench.published(1)
    directory = one.directory
    edit_manifest(directory, platform="cobol")
    bench.validator.sign(directory)
    assert "platform 'cobol' is unknown" in bench.refusal(
        Unsupported, VersionReference(1, one.directory, digest_of(directory))
    )


def test_a_number_of_another_version_is_refused(bench: Bench) -> None:
    one = bench.published(1)
    assert "is for m:1, the push names m:5" in bench.refusal(InvalidInput, replace(one, version=5))
    assert "name each once" in bench.refusal(InvalidInput, one, one)


@pytest.mark.parametrize(
    ("labels", "shadow", "match"),
    [
        ({"stable": 2}, None, "label 'stable' names version 2"),
        ({"": 1}, None, "cannot be used"),
        ({}, Shadow(3, 0.1), "the shadow names version 3"),
        ({}, Shadow(1, 1.5), "fraction is 1.5"),
    ],
)
def test_labels_and_shadows_must_make_sense(
    bench: Bench, labels: Mapping[str, int], shadow: Shadow | None, match: str
) -> None:
    one = bench.published(1)
    with pytest.raises(InvalidInput, match=match):
        bench.push(one, labels=labels, shadow=shadow)
    assert bench.target.calls == []


def test_a_restart_replays_what_was_told(bench: Bench) -> None:
    one, two = bench.published(1), bench.published(2)
    bench.push(one, two, labels={"stable": 1}, shadow=Shadow(2, 0.25))
    bench.restart()
    assert bench.target.numbers("m") == [1, 2]
    payload = bench.target.wanted["m"][0].payload
    assert payload is not None
    assert (payload.directory, payload.manifest_digest, payload.platform) == (
        one.directory,
        one.manifest_digest,
        "python",
    )
    assert bench.target.label_sets == {"m": {"stable": 1}}
    assert bench.target.shadows == {"m": Shadow(2, 0.25)}
    assert bench.push(one) == 2


def test_an_empty_push_unloads_and_lets_the_name_go(bench: Bench) -> None:
    bench.push(bench.published(1))
    bench.push()
    assert bench.target.calls[-1] == ("m", [])
    assert bench.owners.owner("m") == ""
    bench.restart()
    assert bench.target.calls == []
    assert bench.source.desired("m") is not None


def test_a_servable_of_another_source_is_refused(bench: Bench) -> None:
    one = bench.published(1)
    bench.owners.claim("m", "file system source")
    assert "belongs to the file system source" in bench.refusal(FailedPrecondition, one)


def test_what_serves_is_not_read_again(bench: Bench) -> None:
    one, two = bench.published(1), bench.published(2)
    bench.push(one)
    bench.available.add(ServableId("m", 1))
    (one.directory / "model.py").unlink()
    bench.push(one, two)
    assert bench.target.numbers("m") == [1, 2]
    bench.available.clear()
    assert "is missing" in bench.refusal(Tampered, one)


def test_what_serves_cannot_be_replaced_under_its_number(bench: Bench) -> None:
    one = bench.published(1)
    bench.push(one)
    bench.available.add(ServableId("m", 1))
    assert "publish under a new version number" in bench.refusal(
        FailedPrecondition, replace(one, manifest_digest="0" * 64)
    )


def test_two_engines_never_share_a_state_directory(bench: Bench) -> None:
    with pytest.raises(FailedPrecondition, match="used by another engine"):
        bench.make()
    bench.source.stop()
    with pytest.raises(FailedPrecondition, match="used by another engine"):
        bench.make()
    bench.source.close()
    bench.make().close()


def test_a_stopped_source_takes_nothing(bench: Bench) -> None:
    one = bench.published(1)
    bench.source.stop()
    assert "stopping" in bench.refusal(FailedPrecondition, one)


@pytest.mark.parametrize("text", ["{", json.dumps({"format": "tidegate.desired-state/1", "servable": "m"})])
def test_state_that_cannot_be_read_is_named_and_kept(bench: Bench, text: str) -> None:
    bench.push(bench.published(1))
    bench.source.close()
    path = bench.folder / "state" / FOLDER / "m.json"
    path.write_text(text)
    with pytest.raises(Tampered, match=r"desired/m\.json"):
        bench.make()
    assert path.read_text() == text


def test_a_push_that_cannot_be_kept_is_not_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = bench.published(1), bench.published(2)
    bench.push(one)

    def fails(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fails)
        with pytest.raises(ResourceExhausted, match=r"desired/m\.json cannot be kept, the disk is full: free space"):
            bench.push(one, two)
    assert bench.target.calls == [("m", [1])]
    for _ in range(2):
        desired = bench.source.desired("m")
        assert desired is not None
        assert desired.revision == 1
        bench.restart()


def test_nothing_is_kept_of_names_that_were_refused(bench: Bench) -> None:
    there = VersionReference(1, bench.root / "nothing" / "1", "0" * 64)
    for number in range(100):
        with pytest.raises(TidegateError):
            bench.source.set_desired_state(DesiredState(f"m{number}", (there,), requested_by="somebody"))
    assert not bench.source._turns


def test_nothing_is_kept_of_names_under_which_nothing_was_ever_wanted(bench: Bench) -> None:
    for number in range(100):
        nothing = DesiredState(f"m{number}", requested_by="somebody")
        assert bench.source.set_desired_state(nothing) == 0
        assert bench.source.desired(nothing.servable) is None
    assert (bench.source.names(), bench.target.calls, list((bench.folder / "state").rglob("*m7*"))) == ([], [], [])
    bench.owners.claim("m", "file system source")
    assert "belongs to the file system source" in bench.refusal(FailedPrecondition)


def test_one_push_of_a_servable_at_a_time(bench: Bench) -> None:
    inside, most = 0, 0

    def push(number: int) -> None:
        nonlocal inside, most
        with bench.source._turn("m"):
            inside += 1
            most = max(most, inside)
            for _ in range(100):
                os.sched_yield()
            inside -= 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(push, range(200)))
    assert most == 1
    assert not bench.source._turns
