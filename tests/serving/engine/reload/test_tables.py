"""Tables `[sources.*]` while the engine runs: they come, change and go by a reload, and nothing serves less for it."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.clients import rest
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish

from tidegate_serving.config import EngineConfig, ModelConfig
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, TidegateError, Unavailable
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.engine import Engine
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.extra import factory
from tidegate_serving.sources.target import AspiredVersion, Source


class Spoken:
    """A source that wants version 1 of what its table names, from a folder; it can be told to fail or to wait."""

    def __init__(self, table: Mapping[str, Any], context: SourceContext) -> None:
        self._table = table
        self._context = context
        self.stopped = False

    def start(self) -> None:
        self._context.problems.report("a", "spoken", Unavailable("a moment"))
        self._context.problems.settle("a", "spoken")
        if "gate" in self._table:
            assert GATES[self._table["gate"]].wait(30)
        if "fails" in self._table:
            raise Unavailable(self._table["fails"])
        for name in self._table["names"]:
            self.want(name)

    def want(self, name: str) -> None:
        path = VersionReference(1, Path(self._table["folder"]) / name / "1", "", "python")
        digest = extra_digest(path.directory)
        self._context.owners.claim(name, "spoken")
        version = AspiredVersion(ServableId(name, 1), dataclasses.replace(path, manifest_digest=digest))
        self._context.target.set_aspired_versions(name, [version])

    def stop(self) -> None:
        self.stopped = True


GATES: dict[str, threading.Event] = {}
MADE: list[Spoken] = []


def extra_digest(directory: Path) -> str:
    from tidegate_serving.contract.manifest import read_manifest

    return read_manifest(directory)[1]


def make_source(table: Mapping[str, Any], context: SourceContext) -> Source:
    if "names" not in table:
        raise KeyError("names")
    MADE.append(Spoken(table, context))
    return MADE[-1]


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    MADE.clear()
    monkeypatch.setitem(factory._BUILT_IN, "spoken", f"{__name__}:make_source")


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    for name in ("a", "b", "c"):
        publish(tmp_path / "r", name, 1, adding(1))
    endpoint = "127.0.0.1:0"
    return EngineConfig(
        grpc_address="", rest_address=endpoint, control_address="", allow_unverified=True, poll_seconds=0.1
    )


@pytest.fixture
def engine(config: EngineConfig) -> Iterator[Engine]:
    with Engine(config) as made:
        yield made


def served(engine: Engine) -> dict[str, list[int]]:
    found = {
        servable.servable: [one.version for one in servable.versions if one.state is State.AVAILABLE]
        for servable in engine.status().servables
    }
    return {name: versions for name, versions in found.items() if versions}


def store(folder: Path, name: str, **more: Any) -> dict[str, Any]:
    return {"url": f"file://{folder / name}", "cache": str(folder / f"{name}-cache"), "poll_seconds": 0.1, **more}


def spoken(folder: Path, *names: str, **more: Any) -> dict[str, Any]:
    return {"spoken": {"names": list(names), "folder": str(folder / "r"), **more}}


def test_an_object_store_comes_moves_and_goes(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    publish(tmp_path / "first", "m", 1, adding(1))
    publish(tmp_path / "second", "n", 2, adding(2))
    first = dataclasses.replace(config, sources={"object_store": store(tmp_path, "first")})
    changes = engine.reload(first, dry_run=True)
    assert "sources.object_store.url" in [change.key for change in changes.changes]
    assert not (tmp_path / "first-cache").exists(), "a dry run leaves no trace"
    engine.reload(first)
    eventually(lambda: served(engine) == {"m": [1]})
    assert [change.key for change in engine.reload(first).changes] == []
    engine.reload(dataclasses.replace(config, sources={"object_store": store(tmp_path, "second")}))
    eventually(lambda: served(engine) == {"n": [2]})
    engine.reload(config)
    eventually(lambda: served(engine) == {})
    engine.reload(dataclasses.replace(config, models={"n": ModelConfig(path=str(tmp_path / "second" / "n"))}))
    eventually(lambda: served(engine) == {"n": [2]})


def test_the_same_cache_is_handed_on_with_what_serves_from_it(
    engine: Engine, config: EngineConfig, tmp_path: Path
) -> None:
    publish(tmp_path / "first", "m", 1, adding(1))
    engine.reload(dataclasses.replace(config, sources={"object_store": store(tmp_path, "first")}))
    eventually(lambda: served(engine) == {"m": [1]})
    began = engine.status("m").servables[0].versions[0].since_us
    engine.reload(dataclasses.replace(config, sources={"object_store": store(tmp_path, "first", versions="all")}))
    publish(tmp_path / "first", "m", 2, adding(2))
    eventually(lambda: served(engine) == {"m": [2, 1]})
    assert engine.status("m").servables[0].versions[1].since_us == began, "version 1 never stopped serving"


def test_a_cache_of_another_store_is_refused(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    publish(tmp_path / "first", "m", 1, adding(1))
    table = store(tmp_path, "first")
    engine.reload(dataclasses.replace(config, sources={"object_store": table}))
    eventually(lambda: served(engine) == {"m": [1]})
    moved = {**table, "url": f"file://{tmp_path / 'second'}"}
    with pytest.raises(InvalidInput, match=r"first-cache holds copies from file://.*/first and cannot take those from"):
        engine.reload(dataclasses.replace(config, sources={"object_store": moved}), dry_run=True)


def test_a_cache_belongs_to_one_engine(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    publish(tmp_path / "first", "m", 1, adding(1))
    both = dataclasses.replace(config, sources={"object_store": store(tmp_path, "first")})
    with Engine(both), pytest.raises(FailedPrecondition, match="first-cache is used by another engine"):
        engine.reload(both)
    assert engine.config == config
    engine.reload(both)
    eventually(lambda: served(engine) == {"m": [1]})


def test_what_another_table_no_longer_names_is_given_up_and_the_rest_stays(
    engine: Engine, config: EngineConfig, tmp_path: Path
) -> None:
    engine.reload(dataclasses.replace(config, sources=spoken(tmp_path, "a", "b")))
    eventually(lambda: served(engine) == {"a": [1], "b": [1]})
    since = engine.status("b").servables[0].versions[0].since_us
    engine.reload(dataclasses.replace(config, sources=spoken(tmp_path, "b", "c")))
    eventually(lambda: served(engine) == {"b": [1], "c": [1]})
    assert engine.status("b").servables[0].versions[0].since_us == since
    assert MADE[0].stopped
    with pytest.raises(FailedPrecondition, match="no longer in the config"):
        MADE[0].want("a")
    assert served(engine) == {"b": [1], "c": [1]}
    engine.reload(config)
    eventually(lambda: served(engine) == {})
    assert [one.stopped for one in MADE] == [True, True]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"nosuch": {}}, "source 'nosuch' is unknown: use one of mlflow, object_store"),
        ({"spoken": {}}, r"\[sources\.spoken\] cannot be used \(KeyError: 'names'\): mend it"),
        ({"object_store": {"url": "s3://b"}}, r"\[sources\.object_store\] lacks the key 'cache': add it"),
        ({"spoken": {"names": ["a"], "fails": "the store is away"}}, "the store is away"),
    ],
)
def test_a_table_that_cannot_be_changes_nothing_at_all(
    engine: Engine, config: EngineConfig, tmp_path: Path, table: dict[str, Any], words: str
) -> None:
    before = dataclasses.replace(config, sources=spoken(tmp_path, "a"))
    engine.reload(before)
    eventually(lambda: served(engine) == {"a": [1]})
    since = engine.status("a").servables[0].versions[0].since_us
    labelled = {"a": ModelConfig(labels={"best": 1})}
    with pytest.raises(TidegateError, match=words):
        engine.reload(dataclasses.replace(config, sources=table, models=labelled))
    assert engine.config == before
    assert served(engine) == {"a": [1]}
    assert not MADE[-1].stopped
    (version,) = engine.status("a").servables[0].versions
    assert (version.since_us, version.labels) == (since, ())
    engine.reload(dataclasses.replace(config, sources=spoken(tmp_path, "b")))
    eventually(lambda: served(engine) == {"b": [1]})


def test_a_store_that_is_down_takes_nothing_away_until_it_answers(
    engine: Engine, config: EngineConfig, tmp_path: Path
) -> None:
    publish(tmp_path / "first", "m", 1, adding(1))
    engine.reload(dataclasses.replace(config, sources={"object_store": store(tmp_path, "first")}))
    eventually(lambda: served(engine) == {"m": [1]})
    engine.reload(dataclasses.replace(config, sources={"object_store": store(tmp_path, "later")}))
    assert served(engine) == {"m": [1]}
    assert [problem.error_code for problem in engine.status().problems] == ["not_found"]
    publish(tmp_path / "later", "n", 1, adding(1))
    eventually(lambda: served(engine) == {"n": [1]})
    assert engine.status().problems == ()


def test_an_engine_whose_only_store_cannot_be_read_is_not_ready_until_it_can(
    config: EngineConfig, tmp_path: Path
) -> None:
    blind = dataclasses.replace(config, sources={"object_store": store(tmp_path, "later")})
    with Engine(blind) as engine:
        ready = functools.partial(rest.call, engine.addresses.rest, "GET", "/v2/health/ready")
        eventually(lambda: b"nothing is served: listing file://" in ready().body)
        assert ready().status == 503
        publish(tmp_path / "later", "n", 1, adding(1))
        eventually(lambda: ready().status == 200)


def test_a_start_that_takes_its_time_holds_up_no_reload(
    engine: Engine, config: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_serving.sources.extra.sources.START_SECONDS", 0.05)
    GATES.update(late=threading.Event(), never=threading.Event())
    engine.reload(dataclasses.replace(config, sources=spoken(tmp_path, "a")))
    eventually(lambda: served(engine) == {"a": [1]})
    engine.reload(dataclasses.replace(config, sources=spoken(tmp_path, "b", gate="late")))
    assert served(engine) == {"a": [1]}, "what the table before wanted stays until this one has spoken"
    GATES["late"].set()
    eventually(lambda: served(engine) == {"b": [1]})
    engine.reload(dataclasses.replace(config, sources=spoken(tmp_path, "b", gate="never", fails="it broke")))
    GATES["never"].set()
    eventually(lambda: [problem.error_message for problem in engine.status().problems] == ["it broke"])
    assert served(engine) == {"b": [1]}


def test_what_moves_to_a_source_that_takes_its_time_stays_until_that_has_spoken(
    engine: Engine, config: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_serving.sources.extra.sources.START_SECONDS", 0.05)
    GATES.update(wants=threading.Event(), declines=threading.Event())
    by_path = dataclasses.replace(config, models={"a": ModelConfig(path=str(tmp_path / "r" / "a"))})
    engine.reload(by_path)
    assert eventually(lambda: served(engine) == {"a": [1]})
    engine.reload(dataclasses.replace(config, sources=spoken(tmp_path, "a", gate="wants")))
    assert served(engine) == {"a": [1]}
    GATES["wants"].set()
    assert eventually(lambda: source_of(engine) == "spoken")
    engine.reload(by_path)
    assert (served(engine), source_of(engine)) == ({"a": [1]}, "file system source")
    engine.reload(dataclasses.replace(config, sources=spoken(tmp_path, "b", gate="declines")))
    assert served(engine) == {"a": [1]}, "nobody knows yet whether it is wanted"
    GATES["declines"].set()
    assert eventually(lambda: served(engine) == {"b": [1]})


def source_of(engine: Engine) -> str:
    servable = engine.status("a").servable("a")
    return servable.source if servable else ""
