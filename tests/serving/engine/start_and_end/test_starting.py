"""How an engine starts: what it replays, what it waits for, and how it says that it cannot."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.clients import rest
from tests.support.engine.control import push, push_and_wait
from tests.support.engine.process import EngineProcess, free_port
from tests.support.eventually import eventually
from tests.support.models.gate import AT_LOAD, Gate
from tests.support.models.versions import (
    Draft,
    Validator,
    adding,
    digest_of,
    edit_manifest,
    flip,
    make_validator,
    publish,
)

from tidegate_serving.config import EngineConfig, ModelConfig
from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, NotAdmitted, Tampered, TidegateError
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient
from tidegate_serving.engine import Engine

X = np.array([1.0], dtype=np.float32)
ANY = "127.0.0.1:0"


@pytest.fixture
def validator(tmp_path: Path) -> Validator:
    return make_validator(tmp_path / "keys")


def signed(validator: Validator, root: Path, version: int) -> Path:
    directory = publish(root, "m", version, adding(version * 100))
    validator.sign(directory)
    return directory


def gated(folder: Path, validator: Validator, **values: Any) -> EngineProcess:
    config = {"roots": [folder / "r"], "trusted_keys": [validator.public], "state_directory": folder / "state"}
    return EngineProcess(folder / "engine", **{**config, **values})


def test_an_engine_is_ready_without_a_model_of_which_no_version_is_wanted(tmp_path: Path) -> None:
    for name in ("a", "b"):
        publish(tmp_path / "models", name, 1, adding(1))

    def config(versions: str | None = None) -> EngineConfig:
        models = {
            "a": ModelConfig(path=str(tmp_path / "models" / "a")),
            "b": ModelConfig(path=str(tmp_path / "models" / "b"), versions=versions),
        }
        state = tmp_path / "state"
        return EngineConfig(
            grpc_address="",
            rest_address=ANY,
            control_address=ANY,
            models=models,
            allow_unverified=True,
            state_directory=state,
        )

    def is_ready(engine: Engine) -> bool:
        return rest.call(engine.addresses.rest, "GET", "/v2/health/ready").status == 200

    with Engine(config()) as engine:
        assert eventually(lambda: is_ready(engine))
        engine.reload(config("none"))
        assert eventually(lambda: engine.status("b").servables[0].versions[0].state is State.END)
        assert eventually(lambda: is_ready(engine))
        engine.reload(config())
        engine.wait_until("b", 1, State.AVAILABLE, 30)
        with ControlClient(engine.addresses.control) as control:
            control.block("b", 1, requested_by="anna", reason="it is late")
        assert eventually(lambda: engine.status("b").servables[0].versions[0].state is State.END)
        assert eventually(lambda: is_ready(engine))
    with Engine(config()) as engine:
        assert eventually(lambda: is_ready(engine)), "also where the block is from before"
    with Engine(config("none")) as engine:
        assert eventually(lambda: is_ready(engine))


def test_a_restart_replays_what_the_control_port_was_told(tmp_path: Path, validator: Validator) -> None:
    one, two = signed(validator, tmp_path / "r", 1), signed(validator, tmp_path / "r", 2)
    engine = gated(tmp_path, validator)
    with engine, engine.control() as control:
        push_and_wait(control, one, two, labels={"stable": 1, "canary": 2}, shadow=Shadow(2, 0.5))
        assert engine.stop() == 0
    with engine, engine.client() as client, engine.control() as control:
        assert client.predict("m", {"x": X}).version == 1, "it is ready only once it serves what it served"
        assert client.predict("m", {"x": X}, label="canary").version == 2
        status = control.status("m").servables[0]
        assert (status.desired.revision, status.desired.shadow, status.source) == (1, Shadow(2, 0.5), "RPC Source")
        assert push(control, two) == 2
        control.wait_until("m", 1, State.END, 30)


def test_a_restart_with_a_spoilt_version_serves_the_others_and_says_so(tmp_path: Path, validator: Validator) -> None:
    one, two = signed(validator, tmp_path / "r", 1), signed(validator, tmp_path / "r", 2)
    engine = gated(tmp_path, validator)
    with engine, engine.control() as control:
        push_and_wait(control, one, two)
        assert engine.stop() == 0
    flip(two / "model.py", 10)
    with engine, engine.client() as client, engine.control() as control:
        assert client.predict("m", {"x": X}).version == 1
        with pytest.raises(Tampered, match=r"model\.py differs from the manifest of m:2"):
            control.wait_until("m", 2, State.AVAILABLE, 30)


@pytest.mark.parametrize("name", ["model.py", "manifest.json", "verdict"])
def test_one_flipped_byte_keeps_the_gate_shut_and_the_old_version_answers(
    tmp_path: Path, validator: Validator, name: str
) -> None:
    one, two = signed(validator, tmp_path / "r", 1), signed(validator, tmp_path / "r", 2)
    versions = VersionReference(1, one, digest_of(one)), VersionReference(2, two, digest_of(two))
    desired = DesiredState("m", versions, requested_by="test")
    spoilt = verdict_path(two) if name == "verdict" else two / name
    with gated(tmp_path, validator) as engine, engine.client() as client, engine.control() as control:
        push_and_wait(control, one)
        flip(spoilt, spoilt.stat().st_size // 2)
        with pytest.raises(TidegateError, match=spoilt.name.replace(".", r"\.")):
            control.set_desired_state(desired)
        assert client.predict("m", {"x": X}).version == 1
        flip(spoilt, spoilt.stat().st_size // 2)
        control.set_desired_state(desired)
        control.wait_until("m", 2, State.AVAILABLE, 30)


def test_a_repository_is_served_by_verdict_and_its_servables_are_no_matter_of_the_control_port(
    tmp_path: Path, validator: Validator
) -> None:
    one = signed(validator, tmp_path / "r", 1)
    unsigned = publish(tmp_path / "r", "m", 2, adding(200))
    engine = gated(tmp_path, validator, repository=tmp_path / "r", poll_seconds=0.05)
    with engine, engine.client() as client, engine.control() as control:
        assert client.predict("m", {"x": X}).version == 1
        with pytest.raises(NotAdmitted, match=r"2\.verdict\.json is missing"):
            control.wait_until("m", 2, State.AVAILABLE, 30)
        with pytest.raises(FailedPrecondition, match="belongs to the file system source"):
            push(control, one)
        validator.sign(unsigned)
        eventually(lambda: client.predict("m", {"x": X}).version == 2)


@pytest.mark.parametrize("port", ["grpc_address", "rest_address", "control_address"])
def test_an_address_that_is_taken_is_told_with_what_to_do(port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        addresses: dict[str, Any] = {"grpc_address": ANY, "rest_address": ANY, "control_address": ANY, port: address}
        engine = Engine(EngineConfig(**addresses))
        with pytest.raises(OSError, match=f"{address}.*: end what listens there, or name another address"):
            engine.start()
        engine.stop()


def test_a_file_that_cannot_be_written_is_no_address_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ports: dict[str, Any] = {"grpc_address": ANY, "rest_address": ANY, "control_address": ANY}
    engine = Engine(EngineConfig(**ports, access_log_path=tmp_path / "file" / "access.jsonl"))
    with pytest.raises(OSError, match=r"cannot write the access log .*access\.jsonl: Not a directory") as told:
        engine.start()
    engine.stop()
    assert "address" not in str(told.value)


def test_ready_only_once_the_first_versions_are_there(tmp_path: Path) -> None:
    gate = Gate.make(tmp_path / "gate")
    publish(tmp_path / "r", "m", 1, Draft(files={"model.py": gate.source(AT_LOAD, 1)}))
    port = f"127.0.0.1:{free_port()}"
    values = {"repository": tmp_path / "r", "allow_unverified": True, "rest_address": port}
    engine = EngineProcess(tmp_path / "engine", **values).launch()
    try:
        eventually(gate.entered.exists)
        reply = rest.call(port, "GET", "/v2/health/ready")
        assert (reply.status, b"starting" in reply.body) == (503, True)
        assert rest.call(port, "GET", "/v2/health/live").status == 200
        assert not engine.ready_file.exists()
        early = rest.predict(port, "m", [1.0])
        assert (early.status, b"the server is starting" in early.body) == (503, True), "a client that tries again"
        gate.open()
        eventually(engine.ready_file.exists)
        eventually(lambda: rest.call(port, "GET", "/v2/health/ready").status == 200)
        assert rest.predict(port, "m", [1.0]).json() == {"predictions": [2.0]}
        assert rest.predict(port, "nobody", [1.0]).status == 404
    finally:
        assert engine.stop() == 0


def test_not_ready_while_a_servable_it_started_with_cannot_answer(tmp_path: Path) -> None:
    directory = publish(tmp_path / "r", "m", 1, Draft(files={"model.py": "class Model: ..."}))
    values = {"repository": tmp_path / "r", "allow_unverified": True, "poll_seconds": 0.05}
    with EngineProcess(tmp_path / "engine", **values) as engine:
        reply = rest.call(engine.addresses["rest"], "GET", "/v2/health/ready")
        assert (reply.status, b"m:1 is END: " in reply.body) == (503, True)
        (directory / "manifest.json").unlink()
        publish(tmp_path / "r", "m", 2, adding(1))
        eventually(lambda: rest.call(engine.addresses["rest"], "GET", "/v2/health/ready").status == 200)


def test_a_root_that_is_not_there_is_said_and_may_come_later(tmp_path: Path) -> None:
    with EngineProcess(tmp_path / "engine", allow_unverified=True, roots=[tmp_path / "later"]) as engine:
        assert f"WARNING tidegate_serving.runtime.assembly_sources root {tmp_path}/later is not there" in engine.said()
        directory = publish(tmp_path / "later", "m", 1, adding(1))
        with engine.control() as control:
            push_and_wait(control, directory)


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@pytest.mark.parametrize("key", ["grpc_address", "rest_address", "control_address"])
def test_a_taken_port_is_named_and_nothing_stays(tmp_path: Path, taken: str, key: str) -> None:
    engine = EngineProcess(tmp_path, allow_unverified=True, **{key: taken}).launch()
    assert engine.wait() == 2
    assert taken in engine.said()
    assert "Traceback" not in engine.said()
    assert not engine.ready_file.exists()


def test_a_port_that_is_closed_is_told_as_such(tmp_path: Path) -> None:
    with EngineProcess(tmp_path, allow_unverified=True, rest_address="") as engine:
        assert (
            f"serving: gRPC {engine.addresses['grpc']}, REST off, control {engine.addresses['control']}"
            in engine.said()
        )


def test_two_engines_never_share_a_port(tmp_path: Path) -> None:
    with EngineProcess(tmp_path / "one", allow_unverified=True) as first:
        for key in ("grpc", "rest", "control"):
            address = first.addresses[key]
            second = EngineProcess(tmp_path / key, allow_unverified=True, **{f"{key}_address": address}).launch()
            assert second.wait() == 2, key
            assert address in second.said()


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"grcp_address": ANY}, "did you mean grpc_address?"),
        ({"log_sampling_rate": 2}, "use a share from 0 to 1"),
        ({"repository": "/nowhere", "allow_unverified": True}, "/nowhere is no folder"),
        ({"roots": ["/tmp"]}, "no trusted_keys are set"),
        ({"roots": ["/tmp"], "trusted_keys": ["/nowhere.pub"]}, "/nowhere.pub is missing"),
        ({"grpc_address": "nonsense"}, "nonsense"),
        ({"control_address": "0.0.0.0:0"}, "control_address 0.0.0.0:0 is not on loopback"),
    ],
)
def test_a_config_that_cannot_be_used_ends_with_one_sentence(
    tmp_path: Path, values: dict[str, Any], match: str
) -> None:
    engine = EngineProcess(tmp_path, **values).launch()
    assert engine.wait() == 2
    assert match in engine.said()
    assert "Traceback" not in engine.said()


def test_an_embedding_program_serves_directories(tmp_path: Path) -> None:
    directory = publish(tmp_path, "m", 1, adding(1))
    config = EngineConfig(
        grpc_address=ANY, rest_address="", control_address="", directories=(directory,), allow_unverified=True
    )
    engine = Engine(config)
    with engine:
        assert (engine.addresses.rest, engine.addresses.control) == ("", "")
        assert engine.wait_until("m", 1, State.AVAILABLE, 30).id.version == 1
        assert engine.status("m").servables[0].source == "static source"
        with pytest.raises(FailedPrecondition, match="runs already"):
            engine.start()
    with pytest.raises(FailedPrecondition, match="does not run"):
        engine.status()
    with engine:
        assert json.dumps(engine.addresses.grpc), "an engine can be started again"


def test_a_manifest_that_is_not_the_pushed_one_does_not_load(tmp_path: Path, validator: Validator) -> None:
    one = signed(validator, tmp_path / "r", 1)
    engine = gated(tmp_path, validator)
    with engine, engine.control() as control:
        push_and_wait(control, one)
        assert engine.stop() == 0
    edit_manifest(one, created_at="2026-01-02T00:00:00Z")
    validator.sign(one)
    with engine, engine.control() as control, pytest.raises(Tampered, match="is not the manifest that m:1 was pushed"):
        control.wait_until("m", 1, State.AVAILABLE, 30)
