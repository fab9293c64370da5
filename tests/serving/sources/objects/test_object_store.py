"""Model repositories in object stores that stall, lie or lose things, and the bounded cache before them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.lifecycle.fakes import FakeTarget
from tests.support.models.versions import adding, publish
from tests.support.neighbours.faulty_store import FaultyStore, well_again

from tidegate_serving.admission import AdmitUnverified
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, ResourceExhausted, Tampered, TidegateError, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.extra.factory import make_source
from tidegate_serving.sources.file_system.version_policy import parse_version_policy
from tidegate_serving.sources.objects.cache import VersionCache
from tidegate_serving.sources.objects.mirror import Mirror
from tidegate_serving.sources.objects.store import ObjectStore
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems


@pytest.fixture
def faults() -> Iterator[type[FaultyStore]]:
    yield FaultyStore
    well_again()


class Shelf:
    """A folder behind a store, and the mirror's copy of it."""

    def __init__(self, folder: Path, most_bytes: int = 0, timeout: float = 10.0) -> None:
        self.root = folder / "store"
        self.root.mkdir()
        store = ObjectStore(f"faulty://{self.root}", {}, timeout)
        self.cache = VersionCache(folder / "cache", most_bytes, store.url)
        self.needed: list[VersionReference] = []
        self.mirror = Mirror(store, self.cache, AdmitUnverified(), lambda name: self.needed)
        self.mirror.open()

    @staticmethod
    def over(root: Path, cache: Path) -> Mirror:
        """Another mirror of the same store into the same cache, as after a restart."""
        store = ObjectStore(f"faulty://{root}", {}, 10.0)
        mirror = Mirror(store, VersionCache(cache, 0, store.url), AdmitUnverified())
        mirror.open()
        return mirror

    def update(self, policy: str = "latest:1") -> None:
        self.mirror.update("m", parse_version_policy(policy))

    def held(self) -> list[int]:
        return sorted(held.version for held in self.cache.versions("m"))


MakeShelf = Callable[..., Shelf]


@pytest.fixture
def make_shelf(tmp_path: Path) -> Iterator[MakeShelf]:
    made: list[Shelf] = []

    def make(**options: Any) -> Shelf:
        made.append(Shelf(tmp_path, **options))
        return made[-1]

    yield make
    for shelf in made:
        shelf.mirror.close()


@pytest.fixture
def shelf(make_shelf: MakeShelf) -> Shelf:
    return make_shelf()


def test_only_what_is_wanted_is_fetched_and_it_is_the_same_to_the_byte(shelf: Shelf) -> None:
    for version in (1, 2, 3):
        publish(shelf.root, "m", version, adding(version))
    shelf.update()
    assert shelf.held() == [3]
    original, copy = shelf.root / "m" / "3", shelf.cache.path(ServableId("m", 3))
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == {
        path.name: path.read_bytes() for path in original.iterdir()
    }
    assert shelf.mirror.names() == ["m"]


def test_a_version_without_a_manifest_is_not_there_yet(shelf: Shelf) -> None:
    publish(shelf.root, "m", 1)
    manifest = publish(shelf.root, "m", 2) / "manifest.json"
    data = manifest.read_bytes()
    manifest.unlink()
    shelf.update()
    assert shelf.held() == [1]
    manifest.write_bytes(data)
    shelf.update()
    assert shelf.held() == [1, 2]


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (lambda data: data + b"#", r"model\.py is longer than"),
        (lambda data: data[:-1], r"model\.py ended after"),
        (lambda data: b"#" + data[1:], r"model\.py differs from the SHA-256"),
    ],
)
def test_a_store_that_lies_about_a_file_adds_nothing_and_the_old_version_stays(
    shelf: Shelf, faults: type[FaultyStore], tamper: Callable[[bytes], bytes], words: str
) -> None:
    publish(shelf.root, "m", 1)
    shelf.update()
    publish(shelf.root, "m", 2)
    faults.tamper = staticmethod(tamper)
    with pytest.raises(Tampered, match=words):
        shelf.update()
    assert shelf.held() == [1]
    assert sorted(path.name for path in (shelf.cache.root / "m").iterdir()) == ["1"]
    faults.tamper = staticmethod(lambda data: data)
    shelf.update()
    assert shelf.held() == [1, 2]


def test_a_store_that_stalls_costs_its_deadline_and_nothing_else(
    make_shelf: MakeShelf, faults: type[FaultyStore]
) -> None:
    shelf = make_shelf(timeout=2.0)
    publish(shelf.root, "m", 1)
    shelf.update()
    faults.stalled = threading.Event()
    with pytest.raises(Unavailable, match=r"listing faulty://.*/m took more than 2 s"):
        shelf.update()
    assert shelf.held() == [1]
    faults.stalled.set()
    shelf.update()
    assert shelf.held() == [1]


def test_the_cache_is_bounded_and_throws_out_what_was_wanted_longest_ago(make_shelf: MakeShelf, tmp_path: Path) -> None:
    measured = publish(tmp_path / "measured", "m", 1, adding(1))
    size = sum(path.stat().st_size for path in measured.iterdir())
    shelf = make_shelf(most_bytes=int(2.5 * size))
    for version in (1, 2, 3, 4):
        publish(shelf.root, "m", version, adding(version))
        shelf.update()
        assert shelf.cache.size() <= 2.5 * size
    assert shelf.held() == [3, 4]


def test_a_look_at_the_store_leaves_alone_the_folder_that_is_being_loaded(shelf: Shelf) -> None:
    publish(shelf.root, "m", 1, adding(1))
    shelf.update()
    before = (shelf.cache.root / "m" / "1").stat()
    shelf.update()
    assert (shelf.cache.root / "m" / "1").stat().st_ctime_ns == before.st_ctime_ns


def test_what_a_decision_has_serve_is_not_thrown_out_and_is_fetched_again_once_it_is_lost(
    make_shelf: MakeShelf, tmp_path: Path
) -> None:
    measured = publish(tmp_path / "measured", "m", 1, adding(1))
    shelf = make_shelf(most_bytes=int(3.5 * sum(path.stat().st_size for path in measured.iterdir())))
    for version in (1, 2, 3, 4):
        publish(shelf.root, "m", version, adding(version))
        shelf.update()
        shelf.needed = [VersionReference(1, shelf.cache.root / "m" / "1")]
    assert shelf.held() == [1, 3, 4]
    shutil.rmtree(shelf.cache.root / "m" / "1")
    shelf.update()
    assert shelf.held() == [1, 3, 4]
    shelf.needed = [VersionReference(2, tmp_path / "elsewhere" / "m" / "2")]
    shelf.update()
    assert shelf.held() == [1, 3, 4]


def test_what_serves_is_not_thrown_out_for_a_version_that_does_not_fit(make_shelf: MakeShelf) -> None:
    shelf = make_shelf(most_bytes=4000)
    publish(shelf.root, "m", 1)
    shelf.update()
    publish(shelf.root, "m", 2, adding(2, files={"model.py": "#" * 3900}))
    with pytest.raises(ResourceExhausted, match=r"m:2 needs 4\d\d\d bytes .* raise cache_bytes"):
        shelf.update()
    assert shelf.held() == [1]


def test_what_vanished_from_the_store_leaves_the_cache_and_a_lost_folder_does_not(shelf: Shelf) -> None:
    for version in (1, 2):
        publish(shelf.root, "m", version)
        shelf.update()
    shutil.rmtree(shelf.root / "m" / "2")
    shelf.update()
    assert shelf.held() == [1]
    shutil.rmtree(shelf.root / "m")
    with pytest.raises(TidegateError, match="found nothing there"):
        shelf.update()
    assert shelf.held() == [1]


def test_a_listing_that_leaves_things_out_takes_nothing_away(shelf: Shelf, faults: type[FaultyStore]) -> None:
    for version in (1, 2):
        publish(shelf.root, "m", version)
    (shelf.root / "m" / "2.verdict.json").write_text("{}")
    shelf.update()
    faults.unlisted = frozenset({"2", "2.verdict.json"})
    shelf.update()
    assert shelf.held() == [2]
    assert (shelf.cache.root / "m" / "2.verdict.json").exists()
    (shelf.root / "m" / "2.verdict.json").unlink()
    shutil.rmtree(shelf.root / "m" / "2")
    shelf.update()
    assert shelf.held() == [1]
    assert not (shelf.cache.root / "m" / "2.verdict.json").exists()


def test_a_verdict_that_was_withdrawn_while_nobody_looked_is_dropped(shelf: Shelf) -> None:
    publish(shelf.root, "m", 1)
    verdict = shelf.root / "m" / "1.verdict.json"
    verdict.write_text("{}")
    shelf.update()
    copy = shelf.cache.root / "m" / "1.verdict.json"
    assert copy.exists()
    shelf.mirror.close()
    verdict.unlink()
    again = Shelf.over(shelf.root, shelf.cache.root)
    again.update("m", parse_version_policy("latest:1"))
    again.close()
    assert not copy.exists()


@pytest.mark.parametrize("name", ["99999999999999999999", "\N{SUPERSCRIPT TWO}", "2x", "-1"])
def test_folders_that_are_no_versions_hurt_none(shelf: Shelf, name: str) -> None:
    publish(shelf.root, "m", 1)
    (shelf.root / "m" / name).mkdir()
    (shelf.root / "m" / name / "manifest.json").write_text("{}")
    shelf.update()
    assert shelf.held() == [1]


def test_an_interrupted_fetch_is_swept_away_at_the_next_start(tmp_path: Path) -> None:
    lefts = [tmp_path / "cache" / place for place in ("m/1.a.fetching", "m/1.b.going", ".manifests/m/1.c.going")]
    for left in lefts:
        left.mkdir(parents=True)
        (left / "model.py").write_text("half")
    cache = VersionCache(tmp_path / "cache", 0, "s3://b")
    cache.open()
    cache.close()
    assert not any(left.exists() for left in lefts)


def test_a_copy_that_a_loss_of_power_cut_short_is_fetched_again(make_shelf: MakeShelf) -> None:
    shelf = make_shelf()
    publish(shelf.root, "m", 1, adding(1))
    shelf.update()
    shelf.mirror.close()
    copy = shelf.cache.path(ServableId("m", 1))
    (copy / "model.py").write_bytes(b"")
    again = Shelf.over(shelf.root, shelf.cache.root)
    again.update("m", parse_version_policy("latest:1"))
    assert (copy / "model.py").read_bytes() == (shelf.root / "m" / "1" / "model.py").read_bytes()
    (copy / "manifest.json").write_bytes(b"{")
    again.update("m", parse_version_policy("latest:1"))
    assert (copy / "manifest.json").read_bytes() == (shelf.root / "m" / "1" / "manifest.json").read_bytes()
    again.close()


def test_nothing_is_fetched_after_the_end(shelf: Shelf) -> None:
    publish(shelf.root, "m", 1)
    shelf.mirror.close()
    with pytest.raises(Unavailable, match="its source was stopped"):
        shelf.update()
    assert shelf.held() == []


def test_a_cache_that_cannot_be_written_is_a_problem_that_is_said(tmp_path: Path) -> None:
    publish(tmp_path / "store", "m", 1)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / ".manifests").write_text("in the way")
    problems = SourceProblems()
    context = SourceContext(FakeTarget(), AdmitUnverified(), Owners(), problems)
    options = {"url": f"faulty://{tmp_path / 'store'}", "cache": str(tmp_path / "cache"), "poll_seconds": 0.1}
    source = make_source("object_store", options, context)
    source.start()
    try:
        problem = problems.of("m")
        assert problem is not None
        assert ".manifests" in problem.error.message
        assert "cannot be kept" in problem.error.message
    finally:
        source.stop()


def test_no_message_holds_the_password_of_a_url(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    store = ObjectStore(f"faulty://me:mine@{tmp_path / 'store'}", {}, 10.0)
    with pytest.raises(TidegateError) as caught:
        store.read("m", "1", "manifest.json")
    assert "mine" not in caught.value.message
    assert store.url == f"faulty://{tmp_path / 'store'}"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"object_stor": {}}, "source 'object_stor' is unknown: use one of mlflow, object_store"),
        ({"object_store": {"url": "s3://b", "cache": "relative"}}, "cache relative of the object store is relative"),
        ({"object_store": {"url": "s3://b", "cache": "/c", "cach_bytes": 1}}, "did you mean cache_bytes"),
        ({"object_store": {"url": "models", "cache": "/c"}}, "is no URL"),
        ({"object_store": {"url": "nosuch://b", "cache": "/c"}}, "nosuch"),
    ],
)
def test_a_table_that_cannot_be_is_refused(given: dict[str, dict[str, Any]], words: str) -> None:
    context = SourceContext(FakeTarget(), AdmitUnverified(), Owners(), SourceProblems())
    ((name, table),) = given.items()
    with pytest.raises((InvalidInput, TidegateError), match=words):
        make_source(name, table, context)
