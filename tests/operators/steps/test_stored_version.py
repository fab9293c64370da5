"""Releases from a machine that has no folder of the engine's: up to a store, and the baseline back from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.engine.process import EngineProcess
from tests.support.release.world import BETTER, NAME, World, make_world

from tidegate_operators.steps import Evidence, find_baseline, upload
from tidegate_operators.steps.stored_version import fetch
from tidegate_pipelines.release import Release, release
from tidegate_serving.contract.errors import AlreadyExists, NotFound, Tampered
from tidegate_serving.contract.manifest import read_manifest


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return make_world(tmp_path)


def test_a_release_goes_through_the_store_alone(world: World) -> None:
    store, cache = f"file://{world.root}/store", world.root / "engine-cache"
    values = {"trusted_keys": [world.public_key], "push_stores.main": {"url": store, "cache": str(cache)}}
    evidence = Evidence(str(world.held_out), policy=world.policy("quality"))
    with EngineProcess(world.root / "engine", **values) as engine:
        control = engine.addresses["control"]

        def release_of(version: int, source: str) -> Release:
            directory = world.publish(version, source)
            return Release(directory, evidence, world.private_key, control, rule=None, store=store)

        first = release(release_of(1, BETTER))
        assert first.validated.verdict.first
        (cache / NAME / "1").rename(world.root / "not-on-this-machine")
        second = release(release_of(2, BETTER))
        baseline = read_manifest(world.repository / NAME / "1")[1]
        assert (second.validated.verdict.first, second.validated.verdict.baseline) == (False, baseline)
        with engine.control() as client:
            (live,) = client.desired(NAME).versions
        assert (live.address, live.directory) == (f"{store}/{NAME}/2", cache / NAME / "2")
        third = world.publish(3)
        (cache / NAME / "2").rename(world.root / "nor-this")
        found = find_baseline(control=control, directory=third)
        assert found is not None
        assert found.is_relative_to(world.root / "home")
        assert read_manifest(found)[1] == live.manifest_digest


def test_an_upload_happens_once_and_takes_nobodys_place(world: World) -> None:
    store = f"file://{world.root}/store"
    directory = world.admitted(1)
    address = upload(directory, store)
    place = world.root / "store" / NAME / "1"
    assert sorted(path.name for path in place.iterdir()) == sorted(path.name for path in directory.iterdir())
    before = (place / "model.py").stat().st_mtime_ns
    (place.parent / "1.verdict.json").unlink()
    assert upload(directory, store) == address == f"{store}/{NAME}/1"
    assert (place / "model.py").stat().st_mtime_ns == before
    assert (place.parent / "1.verdict.json").is_file(), "a verdict may be written anew"
    shutil.rmtree(directory)
    with pytest.raises(AlreadyExists, match=f"{address} has other files"):
        upload(world.publish(1, BETTER), store)


def test_a_copy_is_what_was_named(world: World) -> None:
    store = f"file://{world.root}/store"
    address = upload(world.publish(1), store)
    digest = read_manifest(world.repository / NAME / "1")[1]
    copy = fetch(address, digest)
    assert read_manifest(copy)[1] == digest
    shutil.rmtree(world.root / "store")
    assert fetch(address, digest) == copy, "the cache's copy needs no store"
    shutil.rmtree(copy)
    with pytest.raises(NotFound):
        fetch(address, digest)
    upload(world.repository / NAME / "1", store)
    (world.root / "store" / NAME / "1" / "model.py").write_text("evil = True\n")
    with pytest.raises(Tampered):
        fetch(address, digest)
