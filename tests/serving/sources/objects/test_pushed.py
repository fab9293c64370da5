"""Versions pushed by address: fetched, verified, kept through restarts, and refused with a cure where a store lies."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import adding, digest_of, publish
from tests.support.neighbours.faulty_store import FaultyStore, well_again

from tidegate_operators.steps import promote, push
from tidegate_operators.steps.stored_version import is_address, read_stored
from tidegate_serving.admission import AdmitUnverified
from tidegate_serving.contract.errors import (
    InvalidInput,
    NotFound,
    PermissionRefused,
    Tampered,
    TidegateError,
    Unavailable,
)
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.sources.objects import pushed
from tidegate_serving.sources.objects.pushed import PushStores


class Shelf:
    """A store with version 1 of model m, and an engine's side of it."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self.root = folder / "store"
        self.version = publish(self.root, "m", 1, adding(1))
        self.digest = digest_of(self.version)
        self.cache = folder / "cache"
        self.url = f"faulty://{self.root}"
        table = {"url": self.url, "cache": str(self.cache), "timeout_seconds": timeout}
        self.stores = PushStores({"main": table}, AdmitUnverified(), tuple)
        self.stores.start()

    def bring(self, address: str = "", digest: str = "") -> Path:
        return self.stores.bring(address or f"{self.url}/m/1", ServableId("m", 1), digest or self.digest)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.setattr(pushed, "_FIRST_PAUSE_SECONDS", 0.01)
    made = Shelf(tmp_path, 10.0)
    yield made
    well_again()
    made.stores.stop()


def test_a_version_is_brought_once_and_then_needs_no_store(shelf: Shelf) -> None:
    assert shelf.bring() == shelf.cache / "m" / "1"
    assert (shelf.cache / "m" / "1" / "model.py").read_bytes() == (shelf.version / "model.py").read_bytes()
    shutil.rmtree(shelf.root)
    assert shelf.bring() == shelf.cache / "m" / "1"
    shutil.rmtree(shelf.cache / "m")
    with pytest.raises(NotFound):
        shelf.bring()


def test_other_files_under_the_same_number_are_not_taken_for_those_that_were_named(shelf: Shelf) -> None:
    shelf.bring()
    shutil.rmtree(shelf.version)
    again = publish(shelf.root, "m", 1, adding(2))
    assert shelf.bring(digest=digest_of(again)) == shelf.cache / "m" / "1"
    assert (shelf.cache / "m" / "1" / "model.py").read_bytes() == (again / "model.py").read_bytes()
    with pytest.raises(Tampered, match=r"the push names aaaaaaaaaaaa: it changed on the way"):
        shelf.bring(digest="a" * 64)


@pytest.mark.parametrize(
    ("address", "kind", "says"),
    [
        ("s3://other/models/m/1", PermissionRefused, r"none of the engine's push_stores \(faulty://"),
        ("{url}-evil/m/1", PermissionRefused, "push_stores"),
        ("{url}/m/2", InvalidInput, "push it as m:1"),
        ("{url}/other/../m/1", InvalidInput, "push it as m:1"),
    ],
)
def test_only_what_lies_in_the_store_under_its_name_may_be_pushed(
    shelf: Shelf, address: str, kind: type[TidegateError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        shelf.bring(address.format(url=shelf.url))


def test_a_store_that_lies_leaves_nothing_behind(shelf: Shelf) -> None:
    FaultyStore.tamper = staticmethod(lambda data: data.replace(b"1", b"2"))
    with pytest.raises(Tampered, match="differs from the SHA-256 of its manifest"):
        shelf.bring()
    assert not (shelf.cache / "m" / "1").exists()
    well_again()
    assert shelf.bring().is_dir()


def test_a_store_that_stalls_is_tried_again_and_then_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "_FIRST_PAUSE_SECONDS", 0.01)
    shelf = Shelf(tmp_path, 0.2)
    try:
        FaultyStore.stalled = threading.Event()
        with pytest.raises(Unavailable, match=r"took more than 0\.2 s: the object store stalls"):
            shelf.bring()
        well_again()
        assert shelf.bring().is_dir()
    finally:
        well_again()
        shelf.stores.stop()


def test_one_failure_is_got_over(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []
    listed = FaultyStore.ls

    def ls(self: FaultyStore, path: str, detail: bool = False, **options: Any) -> Any:
        tries.append(path)
        if len(tries) == 1:
            raise OSError("reset by peer")
        return listed(self, path, detail, **options)

    monkeypatch.setattr(FaultyStore, "ls", ls)
    assert shelf.bring().is_dir()
    assert len(tries) == 2


def test_an_engine_without_stores_says_what_it_needs() -> None:
    with pytest.raises(PermissionRefused, match=r"add a table \[push_stores\.NAME\]"):
        PushStores({}, AdmitUnverified(), tuple).bring("s3://b/m/1", ServableId("m", 1), "a" * 64)


def test_what_a_worker_reads_before_it_pushes(shelf: Shelf) -> None:
    found = read_stored(f"{shelf.url}/m/1")
    assert (found.id, found.manifest_digest, found.verdict_digest) == (
        ServableId("m", 1),
        digest_of(shelf.version),
        None,
    )
    assert [is_address(text) for text in ("s3://b/m/1", "/models/m/1", "models/m/1")] == [True, False, False]
    with pytest.raises(NotFound):
        read_stored(f"{shelf.url}/m/2")
    for wrong in ("s3://m/1", "s3://bucket/models/m", "s3://me:secret@bucket/m/1"):
        with pytest.raises(InvalidInput) as refused:
            read_stored(wrong)
        assert "secret" not in refused.value.message


def test_an_engine_serves_from_a_store_and_fetches_again_what_its_cache_lost(tmp_path: Path) -> None:
    root, cache = tmp_path / "store", tmp_path / "cache"
    url = f"file://{root}"
    for number in (1, 2):
        publish(root, "m", number, adding(number))
    values: dict[str, Any] = {
        "allow_unverified": True,
        "state_directory": tmp_path / "state",
        "retry_most_seconds": 0.5,
        "push_stores.main": {"url": url, "cache": str(cache)},
    }
    with EngineProcess(tmp_path / "engine", **values) as engine:
        control = engine.addresses["control"]
        push(directory=f"{url}/m/1", control=control)
        promote(control=control, servable="m", version=1)
        assert push(directory=f"{url}/m/2", control=control).beside == 1
        assert push(directory=f"{url}/m/2/", control=control).beside == 1
        with pytest.raises(PermissionRefused, match="push_stores"):
            push(directory=publish(tmp_path / "elsewhere", "m", 3).as_uri(), control=control)
        promote(control=control, servable="m", version=2)
        with engine.control() as client:
            assert client.rollback("m", requested_by="anna").to_version == 1
            (version,) = client.desired("m").versions
            assert (version.address, version.directory) == (f"{url}/m/1", cache / "m" / "1")
    shutil.rmtree(cache)
    with EngineProcess(tmp_path / "engine", **values) as engine, engine.client() as client:
        assert float(client.predict("m", {"x": np.array([1.0], np.float32)}).outputs["y"][0]) == 2.0
    root.rename(tmp_path / "away")
    with EngineProcess(tmp_path / "engine", **values) as engine, engine.client() as client:
        assert float(client.predict("m", {"x": np.array([1.0], np.float32)}).outputs["y"][0]) == 2.0
