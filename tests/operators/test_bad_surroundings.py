"""What users of either orchestrator see when something around a task is wrong: code, thing and cure, and nothing lost.

Tasks run in forks of one process, as `tests.support.orchestrators.killed_tasks` does; the engine speaks TLS and wants
tokens.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.engine.process import EngineProcess, free_port
from tests.support.engine.remote import RemoteEngine
from tests.support.neighbours.certificates import DAY, Authority
from tests.support.orchestrators.killer import Killer
from tests.support.orchestrators.launched_task import Task
from tests.support.release.world import HONEST, NAME, World, make_world

from tidegate_operators.steps import promote, push, upload
from tidegate_serving.contract.servable import State
from tidegate_serving.files import remove_folder

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@dataclass(frozen=True)
class Reach:
    """How a task reaches an engine."""

    address: str
    tls: bool = True
    token: str = ""
    ca: Path | None = None

    def connection(self) -> str:
        host, _, port = self.address.rpartition(":")
        extra = {"tls": self.tls, **({} if self.ca is None else {"ca": str(self.ca)})}
        named = {"conn_type": "tidegate", "host": host, "port": int(port), "password": self.token}
        return json.dumps({**named, "extra": extra})

    def variables(self) -> dict[str, str]:
        control = f"tidegates://{self.address}" if self.tls else self.address
        ca = {} if self.ca is None else {"TIDEGATE_CA": str(self.ca)}
        return {"TIDEGATE_CONTROL": control, "TIDEGATE_TOKEN": self.token, **ca}


@dataclass(frozen=True)
class Ended:
    """How a task ended: `done`, or our error's code; in which words, and whether Airflow would try again."""

    code: str
    words: str
    again: bool


@dataclass(frozen=True)
class Orchestrator:
    """Runs a step's task, for the version in `directory`, as one of the two does it."""

    name: str
    killer: Killer
    folder: Path

    def __call__(self, step: str, directory: Any, reach: Reach, machine: dict[str, Any] | None = None) -> Ended:
        return self.run(step, self._named(step, directory), reach, machine)

    def run(self, step: str, parameters: dict[str, Any], reach: Reach, machine: dict[str, Any] | None = None) -> Ended:
        told = machine or {}
        if self.name == "airflow":
            variables = {**told.get("variables", {}), "AIRFLOW_CONN_TIDEGATE_DEFAULT": reach.connection()}
            arguments = {"operator": OPERATORS[step], "arguments": parameters, "run": "run"}
        else:
            variables = {**told.get("variables", {}), **reach.variables()}
            arguments = {"component": step, "document": Task(step, self.folder).document(parameters, {})}
        arguments["machine"] = {**told, "variables": variables}
        found = self.killer(self.name, arguments)
        return Ended(found["ended"], found["words"], found["kind"] == "AirflowException")

    def _named(self, step: str, directory: Any) -> dict[str, Any]:
        if self.name == "airflow" or step in ("push", "validate"):
            return {"directory": str(directory)}
        place = str(directory).rsplit("/", 2)
        named: dict[str, Any] = {"servable": place[1], "version": int(place[2])}
        return {**named, "directory": str(directory)} if step == "canary" else named


OPERATORS = {
    "publish": "PublishModelOperator",
    "validate": "ValidateModelOperator",
    "push": "ServeModelOperator",
    "canary": "CanaryOperator",
    "promote": "PromoteOperator",
}


@pytest.fixture(params=["airflow", "kfp"])
def task(request: pytest.FixtureRequest, killer: Killer, tmp_path: Path) -> Orchestrator:
    return Orchestrator(request.param, killer, tmp_path)


@pytest.fixture(scope="module")
def engine(world: World) -> Iterator[RemoteEngine]:
    remote = RemoteEngine(
        world.root / "remote", roots=[world.repository], trusted_keys=[world.public_key], log_path=world.log
    )
    with remote.process:
        yield remote


@pytest.fixture(scope="module")
def served(engine: RemoteEngine, world: World) -> Path:
    """Version 2 is pushed beside version 1, which serves; all stays so."""
    control = engine.connection("release")
    push(directory=world.admitted(1), control=control)
    promote(control=control, servable=NAME, version=1)
    second = world.admitted(2)
    push(directory=second, control=control)
    return second


@pytest.fixture
def reach(engine: RemoteEngine) -> Reach:
    return Reach(engine.address, True, engine.tokens["release"], engine.authority.file)


def live(engine: RemoteEngine) -> tuple[int | None, list[int]]:
    with engine.control("look") as client:
        status = client.status(NAME).servable(NAME)
    assert status is not None
    there = [one.version for one in status.versions if one.state is State.AVAILABLE]
    return status.desired.stable, sorted(there)


@pytest.mark.parametrize("step", ["push", "canary", "promote"])
def test_who_may_not_is_told_what_it_takes(
    task: Orchestrator, step: str, engine: RemoteEngine, served: Path, reach: Reach
) -> None:
    found = task(step, served, replace(reach, token="not-a-token"))
    assert (found.code, found.again) == ("unauthenticated", False), found
    assert ") is not one that this engine knows: ask whoever operates it" in found.words
    assert "not-a-token" not in found.words
    found = task(step, served, replace(reach, token=engine.tokens["look"]))
    assert (found.code, found.again) == ("permission_refused", False), found
    assert "token 'look' has role look, and " in found.words
    assert "needs release" in found.words
    found = task(step, served, replace(reach, token=engine.tokens["flights"]))
    assert (found.code, found.again) == ("permission_refused", False), found
    assert "flights*" in found.words
    assert live(engine) == (1, [1, 2])


def test_what_does_not_speak_the_same_is_named(
    task: Orchestrator, engine: RemoteEngine, served: Path, reach: Reach
) -> None:
    found = task("push", served, Reach(reach.address, tls=False))
    assert found.code == "unavailable", found
    assert f"if it speaks TLS, set tls or write tidegates://{reach.address}" in found.words
    found = task("push", served, replace(reach, ca=None))
    assert found.code == "unauthenticated"
    assert "give the authority's certificate as ca" in found.words
    found = task("push", served, replace(reach, address=f"127.0.0.1:{free_port()}"))
    assert (found.code, found.again) == ("unavailable", task.name == "airflow")
    assert "check the address and that it runs" in found.words


@contextmanager
def old_certificate(folder: Path) -> Iterator[Reach]:
    """A server whose certificate has expired; our engine would not start with it."""
    from concurrent import futures

    import grpc

    authority = Authority(folder)
    pair = authority.issue("old", since=-9 * DAY, until=-DAY)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    credentials = grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.certificate.read_bytes())])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield Reach(f"127.0.0.1:{port}", True, "token", authority.file)
    finally:
        server.stop(0).wait()


def test_an_expired_certificate_is_named_with_the_clock(task: Orchestrator, served: Path, tmp_path: Path) -> None:
    with old_certificate(tmp_path) as reach:
        found = task("push", served, reach)
    assert (found.code, found.again) == ("unauthenticated", False)
    assert f"the certificate that {reach.address} shows has expired (this machine's clock says " in found.words
    assert "renew it there (control_certificate)" in found.words


def test_a_clock_that_is_five_minutes_off_begins_no_canary(
    task: Orchestrator, engine: RemoteEngine, served: Path, reach: Reach, world: World
) -> None:
    for ahead, words in ((300.0, "300 s ahead of the engine's"), (-300.0, "300 s behind the engine's")):
        push(directory=served, control=engine.connection("release"))
        found = task("canary", served, reach, {"ahead": ahead})
        assert (found.code, found.again) == ("failed_precondition", False), found
        assert f"this machine's clock is {words}" in found.words.replace("299 s", "300 s").replace("301 s", "300 s")
        assert "have both set by NTP" in found.words
        assert live(engine)[0] == 1
    push(directory=served, control=engine.connection("release"))


def test_a_task_that_runs_again_after_its_version_was_deleted_says_so(
    task: Orchestrator, engine: RemoteEngine, reach: Reach, world: World, served: Path
) -> None:
    gone = world.admitted(7 if task.name == "airflow" else 8)
    remove_folder(gone)
    for step in ("push", "canary") if task.name == "kfp" else ("push", "canary", "promote"):
        found = task(step, gone, reach)
        assert (found.code, found.again) == ("not_found", False), found
        assert str(gone) in found.words
        assert "publish" in found.words, "as a cure"
    assert live(engine) == (1, [1, 2])


@pytest.mark.parametrize("step", ["validate", "canary"])
def test_a_worker_without_the_roots_folder_is_told_to_mount_it(task: Orchestrator, reach: Reach, step: str) -> None:
    named = {"servable": NAME, "version": 2} if (task.name, step) == ("kfp", "canary") else {}
    evidence = {"held_out": "june.parquet", "private_key": "validator.key"} if step == "validate" else {}
    found = task.run(step, {"directory": "/srv/not-mounted/tiny/2", **named, **evidence}, reach)
    assert (found.code, found.again) == ("not_found", False)
    assert "/srv/not-mounted/tiny/2 is not on this machine: mount the model repository here" in found.words
    assert "or name a store" in found.words


@pytest.mark.parametrize("name", ["team/flights", "../flights", "<b>flights</b>"])
def test_a_name_that_cannot_be_a_models_is_named(task: Orchestrator, reach: Reach, tmp_path: Path, name: str) -> None:
    (tmp_path / "model.py").write_text(HONEST)
    publication = {"servable": name, "version": 1, "platform": "python", "repository": str(tmp_path / "models")}
    found = task.run("publish", {**publication, "files": [str(tmp_path / "model.py")]}, reach)
    assert (found.code, found.again) == ("invalid_input", False)
    assert name in found.words
    assert not list(tmp_path.rglob("manifest.json"))


@dataclass(frozen=True)
class Stored:
    """A real S3 server with a version, and an engine that may fetch from it."""

    engine: EngineProcess
    server: str
    address: str
    world: World

    @property
    def machine(self) -> dict[str, Any]:
        cache = str(self.world.root / "home")
        return {"variables": {**KEYS, "AWS_ENDPOINT_URL": self.server, "XDG_CACHE_HOME": cache}, "patience": 2.0}

    @property
    def reach(self) -> Reach:
        return Reach(self.engine.addresses["control"], tls=False)


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    from moto.server import ThreadedMotoServer

    world = make_world(tmp_path)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket-{uuid4()}"  # moto keeps what a server had for the next one
    _s3(host, port).mkdir(bucket)
    address = upload(world.admitted(1), f"s3://{bucket}/models")
    tables: dict[str, Any] = {
        "push_stores.main": {"url": f"s3://{bucket}/models", "cache": str(tmp_path / "cache")},
        "push_stores.main.options": {"endpoint_url": f"http://{host}:{port}", "key": "testing", "secret": "testing"},
    }
    with EngineProcess(tmp_path / "engine", trusted_keys=[world.public_key], **tables) as engine:
        yield Stored(engine, f"http://{host}:{port}", address, world)
    server.stop()


def _s3(host: str, port: int) -> Any:
    import fsspec

    options = {"endpoint_url": f"http://{host}:{port}", "key": "testing", "secret": "testing"}
    return fsspec.filesystem("s3", skip_instance_cache=True, **options)


def test_a_store_that_lies_is_found_out(task: Orchestrator, stored: Stored) -> None:
    host, _, port = stored.server.rpartition("//")[2].partition(":")
    _s3(host, int(port)).pipe(f"{stored.address}/model.py", HONEST.replace("0.02", "0.03").encode())
    found = task("push", stored.address, stored.reach, stored.machine)
    assert (found.code, found.again) == ("tampered", False), found
    assert f"{stored.address}/model.py" in found.words
    evidence = {"held_out": str(stored.world.held_out), "private_key": str(stored.world.private_key)}
    told = {"directory": stored.address, **evidence}
    found = task.run("validate", told, stored.reach, stored.machine)
    assert (found.code, found.again) == ("tampered", False), found
    assert f"{stored.address}/model.py" in found.words
    assert "upload the version again" in found.words
    with stored.engine.control() as client:
        assert client.desired(NAME).versions == ()


def test_a_store_that_stalls_is_left_to_the_retries(task: Orchestrator, stored: Stored) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        machine = stored.machine
        machine["variables"]["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = task("push", stored.address, stored.reach, machine)
    assert (found.code, found.again) == ("unavailable", task.name == "airflow"), found
    assert f"reading {stored.address}/manifest.json took more than 2 s: the object store stalls" in found.words
