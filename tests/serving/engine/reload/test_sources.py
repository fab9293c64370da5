"""Other sources while the engine runs: another repository, directories, roots and keys, by `Engine.reload`."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.engine.control import push, push_and_wait
from tests.support.eventually import eventually
from tests.support.models.versions import ADD, adding, make_validator, publish

from tidegate_serving.config import BatchingConfig, EngineConfig, ModelConfig
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotAdmitted, PermissionRefused
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient
from tidegate_serving.engine import Engine
from tidegate_serving.journal import Kind
from tidegate_serving.runtime.reload import HalfReloaded
from tidegate_serving.server import reload
from tidegate_serving.sources.file_system.source import FileSystemSource


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    publish(tmp_path / "first", "a", 1, adding(1))
    any_port = "127.0.0.1:0"
    return EngineConfig(
        grpc_address=any_port,
        rest_address=any_port,
        control_address=any_port,
        repository=tmp_path / "first",
        allow_unverified=True,
        poll_seconds=0.1,
    )


@pytest.fixture
def engine(config: EngineConfig) -> Iterator[Engine]:
    with Engine(config) as made:
        yield made


def served(engine: Engine, name: str) -> list[int]:
    servable = engine.status(name).servable(name)
    return [version.version for version in servable.versions if version.state is State.AVAILABLE] if servable else []


def test_another_repository(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    publish(tmp_path / "second", "b", 2, adding(2))
    changes = engine.reload(dataclasses.replace(config, repository=tmp_path / "second"), dry_run=True)
    assert [change.key for change in changes.changes] == ["repository"]
    assert engine.config == config
    engine.reload(dataclasses.replace(config, repository=tmp_path / "second"))
    eventually(lambda: (served(engine, "a"), served(engine, "b")) == ([], [2]))
    engine.reload(dataclasses.replace(config, repository=None))
    eventually(lambda: served(engine, "b") == [])


def test_directories_come_and_go(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    directory = publish(tmp_path / "second", "b", 2, adding(2))
    engine.reload(dataclasses.replace(config, directories=(directory,)))
    eventually(lambda: served(engine, "b") == [2])
    engine.reload(config)
    eventually(lambda: served(engine, "b") == [])
    assert served(engine, "a") == [1]


def test_two_directories_of_one_version_are_refused(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    twice = tuple(publish(tmp_path / root, "b", 2) for root in ("second", "third"))
    with pytest.raises(InvalidInput, match=r"second/b/2 and .*third/b/2 are both b:2: name one of them"):
        engine.reload(dataclasses.replace(config, directories=twice))
    assert served(engine, "a") == [1]


def test_pushes_come_from_other_roots(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    directory = publish(tmp_path / "second", "b", 2, adding(2))
    with ControlClient(engine.addresses.control) as control:
        with pytest.raises(PermissionRefused):
            push(control, directory)
        engine.reload(dataclasses.replace(config, roots=(tmp_path / "second",)))
        push(control, directory)
        eventually(lambda: served(engine, "b") == [2])
        engine.reload(config)
        with pytest.raises(PermissionRefused):
            push(control, publish(tmp_path / "second", "b", 3))


def test_labels_in_the_config_leave_alone_what_was_pushed_with_its_own(
    engine: Engine, config: EngineConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rooted = dataclasses.replace(config, roots=(tmp_path / "second",))
    engine.reload(rooted)
    with ControlClient(engine.addresses.control) as control:
        push_and_wait(control, publish(tmp_path / "second", "b", 2, adding(2)), labels={"stable": 2})
        for labels in ({"best": 2}, {}):
            engine.reload(dataclasses.replace(rooted, models={"b": ModelConfig(labels=labels)}))
            assert engine.traffic.labels("b") == {"stable": 2}
    assert [one.message for one in caplog.records if "do not count" in one.message] == [
        "the labels of b in the config do not count, because it was pushed with its own"
    ]


def test_from_now_on_only_what_was_verified(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    validator = make_validator(tmp_path)
    strict = dataclasses.replace(config, allow_unverified=False, trusted_keys=(validator.public,))
    engine.reload(strict)
    publish(tmp_path / "first", "a", 2, adding(2))

    def refused() -> bool:
        servable = engine.status("a").servable("a")
        version = servable.version(2) if servable else None
        return version is not None and version.error_code == NotAdmitted.code

    assert eventually(refused)
    validator.sign(tmp_path / "first" / "a" / "2")
    assert eventually(lambda: served(engine, "a") == [2])


def test_names_that_another_source_has_are_left_alone(engine: Engine, config: EngineConfig, tmp_path: Path) -> None:
    elsewhere = publish(tmp_path / "second", "a", 9, adding(9)).parent
    engine.reload(dataclasses.replace(config, models={"a": ModelConfig(path=str(elsewhere))}))
    assert eventually(lambda: served(engine, "a") == [9])
    engine.reload(config)
    assert eventually(lambda: served(engine, "a") == [1])


def test_a_label_that_goes_and_versions_that_go_are_one_change(
    engine: Engine, config: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "first", "a", 2, adding(2))
    both = ModelConfig(versions="all", labels={"stable": 1})
    engine.reload(dataclasses.replace(config, models={"a": both}))
    assert eventually(lambda: served(engine, "a") == [2, 1])
    real, seen = FileSystemSource.take_up, []

    def looks(source: FileSystemSource) -> None:
        seen.append(engine.traffic.ordinary("a"))
        real(source)

    monkeypatch.setattr(FileSystemSource, "take_up", looks)
    engine.reload(dataclasses.replace(config, models={"a": ModelConfig(versions="specific:1")}))
    assert [*seen, engine.traffic.ordinary("a")] == [1, 1]
    assert eventually(lambda: served(engine, "a") == [1])
    assert engine.traffic.labels("a") == {}


def changes_of(engine: Engine, name: str) -> list[str]:
    with ControlClient(engine.addresses.control) as control:
        entries = control.journal()
    return [f"{e.version} {e.action}" for e in entries if e.kind is Kind.STATE and e.servable == name]


def sources_of(config: EngineConfig, first: Path, elsewhere: Path) -> dict[str, EngineConfig]:
    """Configs that have servable `a` from one source each; `first` is the folder of version 1, as `elsewhere`'s."""
    bare = dataclasses.replace(config, repository=None)
    return {
        "repository": config,
        "path": dataclasses.replace(bare, models={"a": ModelConfig(path=str(elsewhere / "a"))}),
        "directories": dataclasses.replace(bare, directories=(first,)),
        "object store": dataclasses.replace(
            bare,
            sources={"object_store": {"url": f"file://{elsewhere}", "cache": str(elsewhere.parent / "cache")}},
        ),
    }


def test_a_servable_moves_from_any_source_to_any_other_in_one_reload_and_never_leaves(
    config: EngineConfig, tmp_path: Path
) -> None:
    publish(tmp_path / "second", "a", 1, adding(1))
    configs = sources_of(config, tmp_path / "first" / "a" / "1", tmp_path / "second")
    order = ["repository", "path", "directories", "object store", "repository", "directories", "path", "object store"]
    order += ["path", "repository", "object store", "directories"]
    with Engine(config) as engine:
        for source in order[1:]:
            engine.reload(configs[source])
            assert engine.predict("a", {"x": [1.0]})["y"].tolist() == [2.0], source
        assert changes_of(engine, "a") == ["1 START", "1 LOADING", "1 AVAILABLE"]
        engine.reload(dataclasses.replace(config, repository=None))
        assert eventually(lambda: served(engine, "a") == [])


def test_a_servable_stays_until_the_folder_that_takes_it_over_is_there(
    engine: Engine, config: EngineConfig, tmp_path: Path
) -> None:
    store = tmp_path / "store" / "a"
    taken = dataclasses.replace(config, repository=None, models={"a": ModelConfig(path=str(store))})
    directory = tmp_path / "first" / "a" / "1"
    engine.reload(dataclasses.replace(config, repository=None, directories=(directory,)))
    engine.reload(taken)
    assert served(engine, "a") == [1]
    publish(store.parent, "a", 2, adding(1))
    assert eventually(lambda: served(engine, "a") == [2])
    assert changes_of(engine, "a")[:4] == ["1 START", "1 LOADING", "1 AVAILABLE", "2 START"]


def test_a_servable_goes_where_the_folder_that_takes_it_over_is_seen_to_be_empty(
    engine: Engine, config: EngineConfig, tmp_path: Path
) -> None:
    emptied = publish(tmp_path / "store", "a", 3, adding(3))
    by_path = dataclasses.replace(config, repository=None, models={"a": ModelConfig(path=str(emptied.parent))})
    engine.reload(by_path)
    assert eventually(lambda: served(engine, "a") == [3])
    shutil.rmtree(emptied)
    assert eventually(lambda: served(engine, "a") == [])
    engine.reload(dataclasses.replace(by_path, directories=(tmp_path / "first" / "a" / "1",)))
    assert eventually(lambda: served(engine, "a") == [1])
    engine.reload(by_path)
    assert eventually(lambda: served(engine, "a") == [])


def test_nothing_to_read_again_is_said_and_kept(engine: Engine) -> None:
    with pytest.raises(FailedPrecondition, match=r"came from no file: call Engine\.reload with another one"):
        engine.reread(requested_by="SIGHUP")
    with ControlClient(engine.addresses.control) as control:
        told = [entry for entry in control.journal() if entry.kind is Kind.REFUSED][-1]
    assert told.words().startswith("a reload was refused: this engine's config came from no file")
    assert told.words().endswith("by SIGHUP")


def test_a_fault_of_the_engine_s_own_at_a_signal_ends_no_server(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(**said: str) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(engine, "reread", fails)
    reload(engine)
    assert "the config was not reloaded, everything is as it was" in caplog.text
    assert "RuntimeError: a bug" in caplog.text


def test_a_step_that_fails_takes_back_the_ones_before_it(
    engine: Engine, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    batching = BatchingConfig(max_batch_rows=7)
    other = dataclasses.replace(config, models={"a": ModelConfig(labels={"best": 1}, batching=batching)})
    real, rates = FileSystemSource.take_up, []

    def fails_once(source: FileSystemSource) -> None:
        rates.append(engine.traffic.batching("a").max_batch_rows)
        if len(rates) == 1:
            raise RuntimeError("the disk went away")
        real(source)

    monkeypatch.setattr(FileSystemSource, "take_up", fails_once)
    with pytest.raises(RuntimeError, match="the disk went away"):
        engine.reload(other)
    assert rates == [7, 1024], "batches had another size, and went back"
    assert engine.config == config
    assert _labels(engine) == ()
    engine.reload(other)
    assert _labels(engine) == ("best",)


def test_what_was_chosen_by_the_memory_at_the_start_stays_by_a_reload(engine: Engine, config: EngineConfig) -> None:
    resized = dataclasses.replace(config, load_threads=3, usable_at_start=config.usable_at_start // 2)
    assert [change.key for change in engine.reload(resized).changes] == ["load_threads"]
    assert engine.config.request_memory == config.request_memory


@pytest.mark.parametrize(("said", "names"), [("well", {"slow"}), ("bad", {"b"})])
def test_a_list_of_models_by_request_leaves_what_a_reload_changed_meanwhile(
    engine: Engine, config: EngineConfig, tmp_path: Path, said: str, names: set[str]
) -> None:
    engine.reload(dataclasses.replace(config, models={"b": ModelConfig(path=str(tmp_path / "second" / "b"))}))
    gate = tmp_path / "gate"
    waits = f"import pathlib, time\nwhile not (gate := pathlib.Path({str(gate)!r})).exists():\n    time.sleep(0.01)\n"
    ends = "if gate.read_text() == 'bad':\n    raise ValueError('broken weights')\n"
    model = publish(tmp_path / "second", "slow", 1, adding(1, files={"model.py": waits + ends + ADD.format(1)}))
    with ThreadPoolExecutor(1) as pool:
        models = {"slow": ModelConfig(path=str(model.parent))}
        swap = pool.submit(engine.replace_models, models, 60.0)
        engine.wait_until("slow", 1, State.LOADING, 30)
        engine.reload(dataclasses.replace(engine.config, max_message_bytes=1_000_000))
        gate.with_suffix(".new").write_text(said)
        gate.with_suffix(".new").rename(gate)
        error = swap.exception(60)
    assert (error is None) == (said == "well")
    assert engine.config.max_message_bytes == 1_000_000
    assert engine.config.models.keys() == names


def test_a_reload_that_fails_takes_back_what_it_gave_up_although_its_folder_is_gone_meanwhile(
    engine: Engine, config: EngineConfig, tmp_path: Path
) -> None:
    fixed, other, pushed = (publish(tmp_path / "second", name, 1, adding(1)) for name in ("fixed", "other", "pushed"))
    before = dataclasses.replace(config, directories=(fixed,), roots=(tmp_path / "second",))
    engine.reload(before)
    with ControlClient(engine.addresses.control) as control:
        push_and_wait(control, pushed)
    assert eventually(lambda: served(engine, "fixed") == [1])
    shutil.rmtree(fixed)
    with pytest.raises(FailedPrecondition, match=r"'pushed' belongs to .*; everything is as it was"):
        engine.reload(dataclasses.replace(before, directories=(other, pushed), max_message_bytes=1000))
    assert engine.config == before
    assert engine.traffic.limits().max_message_bytes == before.max_message_bytes
    assert eventually(lambda: served(engine, "other") == [])
    for name in ("fixed", "pushed"):
        assert changes_of(engine, name) == ["1 START", "1 LOADING", "1 AVAILABLE"]


def test_a_reload_that_cannot_be_taken_back_either_says_so(
    engine: Engine, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(source: FileSystemSource) -> None:
        raise RuntimeError("the disk went away")

    monkeypatch.setattr(FileSystemSource, "take_up", fails)
    with pytest.raises(HalfReloaded, match=r"could not be taken back \(the disk went away\).* restart the engine"):
        engine.reload(dataclasses.replace(config, load_threads=3))


def _labels(engine: Engine) -> tuple[str, ...]:
    servable = engine.status("a").servable("a")
    assert servable is not None
    return servable.versions[0].labels
