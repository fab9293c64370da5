"""Decisions about what a repository serves, on a real engine: they hold against the source and across restarts."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import ADD, Draft, adding, publish

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import FailedPrecondition, TidegateError, Unavailable
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient, ServableStatus

NOTES_ITS_LOADS = """
import numpy as np

class Model:
    def __init__(self, directory):
        with open({loads!r}, "a") as loads:
            loads.write("x")

    def predict(self, inputs):
        return {{"y": inputs["x"] + np.float32(1)}}
"""


class Repository:
    """An engine over a model repository, with a memory."""

    def __init__(self, folder: Path, **values: object) -> None:
        self.root = folder / "models"
        self.root.mkdir()
        self.engine = EngineProcess(
            folder,
            repository=self.root,
            state_directory=folder / "state",
            allow_unverified=True,
            poll_seconds=0.1,
            **values,
        )

    def publish(self, version: int, name: str = "m") -> None:
        publish(self.root, name, version, adding(version))

    def answer(self, client: Client, name: str = "m") -> int:
        found = client.predict(name, {"x": np.array([1.0], dtype=np.float32)})
        assert found.outputs["y"] == 1.0 + found.version
        return found.version

    def status(self, control: ControlClient, name: str = "m") -> ServableStatus:
        found = control.status(name).servable(name)
        assert found is not None
        return found


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_rollback_holds_against_the_repository_and_across_a_crash(repository: Repository) -> None:
    engine = repository.engine
    repository.publish(1)
    with engine, engine.control() as control, engine.client() as client:
        repository.publish(2)
        eventually(lambda: repository.answer(client) == 2)
        control.wait_until("m", 1, State.END, 30)
        done = control.rollback("m", requested_by="anna", reason="2 is wrong")
        assert (done.from_version, done.to_version) == (2, 1)
        control.wait_until("m", 1, State.AVAILABLE, 30)
        assert repository.answer(client) == 1
        repository.publish(3)
        control.wait_until("m", 3, State.AVAILABLE, 30)
        assert repository.answer(client) == 1
        control.override("disable", "m", requested_by="ben", reason="to be sure")
        assert engine.process is not None
        os.kill(engine.process.pid, signal.SIGKILL)
        engine.process.wait(30)
    engine.ready_file.unlink()
    with engine, engine.control() as control, engine.client() as client:
        with pytest.raises(Unavailable, match=r"is switched off: to be sure \(by ben\)"):
            repository.answer(client)
        control.override("enable", "m", requested_by="ben")
        assert repository.answer(client) == 1
        found = repository.status(control)
        assert [(one.action, one.requested_by, one.reason) for one in found.overrides] == [
            ("pin", "anna", "2 is wrong")
        ]
        control.override("unpin", "m", requested_by="anna")
        eventually(lambda: repository.answer(client) == 3)
        told = [(entry.action, entry.requested_by) for entry in control.journal(servable="m") if entry.requested_by]
        assert told == [("rollback", "anna"), ("disable", "ben"), ("enable", "ben"), ("unpin", "anna")]
        assert [entry.action for entry in control.journal() if entry.kind.value == "engine"] == ["start", "start"]


def test_the_version_before_is_kept_where_the_config_says_so(tmp_path: Path) -> None:
    repository = Repository(tmp_path, keep_previous=True)
    engine, loads = repository.engine, tmp_path / "loads"
    publish(repository.root, "m", 1, Draft(files={"model.py": NOTES_ITS_LOADS.format(loads=str(loads))}))
    with engine, engine.control() as control, engine.client() as client:
        repository.publish(2)
        eventually(lambda: repository.answer(client) == 2)
        eventually(lambda: repository.status(control).previous == 1)
        assert repository.status(control).kept == (1,)
        before = loads.read_text()
        control.rollback("m", requested_by="anna")
        assert repository.answer(client) == 1
        assert loads.read_text() == before, "it was loaded again"


def test_a_blocked_version_answers_no_more_and_the_next_one_does(repository: Repository) -> None:
    engine = repository.engine
    repository.publish(1)
    with engine, engine.control() as control, engine.client() as client:
        control.block("m", 1, requested_by="anna", reason="leaked labels")
        with pytest.raises(Unavailable, match="m:1 was blocked: leaked labels; there is no other"):
            repository.answer(client)
        control.wait_until("m", 1, State.END, 30)
        assert "blocked" in repository.status(control).disabled
        repository.publish(2)
        eventually(lambda: _answers(repository, client) == 2)
        assert repository.status(control).disabled == ""
        with pytest.raises(FailedPrecondition, match="blocked"):
            control.pin("m", 1, requested_by="anna")
        refused = [entry for entry in control.journal(servable="m") if entry.kind.value == "refused"]
        assert [(entry.action, entry.error_code) for entry in refused] == [("pin", "failed_precondition")]


def _answers(repository: Repository, client: Client, name: str = "m") -> int | None:
    try:
        return repository.answer(client, name)
    except TidegateError:
        return None


def test_a_version_that_does_not_fit_says_so_everywhere_and_comes_once_there_is_room(tmp_path: Path) -> None:
    repository = Repository(tmp_path, memory_limit_bytes=6000)
    engine = repository.engine
    for name in ("first", "second"):
        files: dict[str, str | bytes] = {"model.py": ADD.format(1), "weights": b"w" * 3500}
        publish(repository.root, name, 1, Draft(files=files))
    with engine, engine.control() as control, engine.client() as client:
        answers = {name: _answers(repository, client, name) for name in ("first", "second")}
        assert sorted(answers.values(), key=str) == [1, None]
        (refused,) = (name for name, version in answers.items() if version is None)
        status = repository.status(control, refused).version(1)
        assert status is not None
        assert status.error_code == "resource_exhausted"
        words = f"insufficient memory to load {refused}:1: it needs"
        assert words in status.error_message
        assert "raise memory_limit_bytes or serve fewer versions" in status.error_message
        assert any(words in entry.words() for entry in control.journal(servable=refused))
        (served,) = answers.keys() - {refused}
        shutil.rmtree(repository.root / served / "1")
        eventually(lambda: _answers(repository, client, refused) == 1)


@pytest.mark.parametrize("key", ["state_directory", "log_path"])
def test_a_folder_that_is_a_file_or_cannot_be_made_is_named(tmp_path: Path, key: str) -> None:
    taken, nowhere = tmp_path / "taken", Path("/proc/nowhere")
    taken.write_text("")
    why = {taken: "which is or lies in a file: name a folder", nowhere: "which cannot be made (No such file"}
    for place, words in why.items():
        engine = EngineProcess(tmp_path / "engine", allow_unverified=True, **{key: place}).launch()
        assert engine.wait() == 2
        assert f"{key} is {place}, {words}" in engine.said()
    assert "Traceback" not in engine.said()
