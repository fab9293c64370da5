"""Version directories that become something else while the engine looks at them or loads them: another model goes on,
and what is right in the end is served."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import TidegateError

STEPS, VERSIONS = 400, 5
NO_NUMBERS = ("1e3", "\u0661", "-1", "+1", "0x2", " 3", "1_0", "1.0", "9" * 40, "\u00b2", "one", "...", "1\n")


class Chaos:
    """Does one thing after the other to the versions of a model, drawn from a fixed seed."""

    def __init__(self, model: Path, aside: Path) -> None:
        self._model = model
        self._aside = aside
        self._chance = random.Random(11)
        self._number = 0
        model.mkdir(exist_ok=True)

    def step(self) -> bool:
        """Whether it could be done with what is there."""
        version = self._model / str(self._chance.randrange(1, VERSIONS + 1))
        things = (
            self._publish,
            self._move,
            self._become,
            self._cut,
            self._pipe_in,
            self._rewrite,
            self._loop,
            self._odd,
        )
        try:
            self._chance.choice(things)(version)
        except OSError:
            return False
        return True

    def _publish(self, version: Path) -> None:
        self._gone(version)
        self._number += 1
        made = publish(self._aside / str(self._number), "odd", int(version.name), adding(1))
        made.rename(version)

    def _move(self, version: Path) -> None:
        version.rename(self._model / str(self._chance.randrange(1, VERSIONS + 1)))

    def _become(self, version: Path) -> None:
        self._gone(version)
        kind = self._chance.randrange(5)
        if kind == 0:
            os.mkfifo(version)
        elif kind == 1:
            version.write_bytes(b"no folder")
        elif kind < 5:
            version.symlink_to((version, self._aside, self._model / "1")[kind - 2])

    def _cut(self, version: Path) -> None:
        file = version / self._chance.choice(("model.py", "manifest.json"))
        os.truncate(file, self._chance.randrange(file.stat().st_size + 1))

    def _pipe_in(self, version: Path) -> None:
        file = version / self._chance.choice(("model.py", "manifest.json", "more.onnx"))
        file.unlink(missing_ok=True)
        os.mkfifo(file)

    def _rewrite(self, version: Path) -> None:
        other = self._model / str(self._chance.randrange(1, VERSIONS + 1)) / "manifest.json"
        data = other.read_bytes() if other.is_file() else self._chance.randbytes(1000)
        if not (version / "manifest.json").is_fifo():
            (version / "manifest.json").write_bytes(data)

    def _loop(self, version: Path) -> None:
        for name in ("again", "once more"):
            (version / name).symlink_to(version)

    def _odd(self, version: Path) -> None:
        name = self._chance.choice(NO_NUMBERS)
        shutil.copytree(version, self._model / name, symlinks=True, copy_function=shutil.copyfile)

    @staticmethod
    def _gone(version: Path) -> None:
        if version.is_dir() and not version.is_symlink():
            shutil.rmtree(version)
        else:
            version.unlink(missing_ok=True)


def answer(client: Client, model: str) -> float:
    return float(client.predict(model, {"x": np.array([1], np.float32)}, timeout=30).outputs["y"][0])


@contextlib.contextmanager
def asking(engine: EngineProcess, model: str) -> Iterator[list[str]]:
    """Asks one request after the other meanwhile; what did not come out right."""
    problems, over = list[str](), threading.Event()

    def ask() -> None:
        with engine.client() as client:
            while not over.is_set():
                try:
                    if (said := answer(client, model)) != 2:
                        problems.append(f"answered {said}")
                except TidegateError as error:
                    problems.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield problems
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("unpublished", [False, True], ids=["published", "unpublished"])
def test_whatever_becomes_of_version_directories_others_are_served(tmp_path: Path, unpublished: bool) -> None:
    root = tmp_path / "r"
    publish(root, "good", 1, adding(1))
    chaos, pause = Chaos(root / "odd", tmp_path / "aside"), threading.Event()
    config = {"repository": root, "allow_unverified": True, "allow_unpublished": unpublished, "poll_seconds": 0.05}
    with EngineProcess(tmp_path / "e", quiet_seconds=0.05, **config) as engine:
        with asking(engine, "good") as problems:
            done = 0
            for _ in range(STEPS):
                done += chaos.step()
                pause.wait(0.01)
            assert done > STEPS // 3
            shutil.rmtree(root / "odd")
            publish(root, "odd", 70, adding(70))
            with engine.client() as client:
                eventually(lambda: _answers(client, "odd", 71), 60)
        assert not problems
        assert engine.process is not None
        engine.terminate()
        assert engine.wait() == 0


def _answers(client: Client, model: str, value: float) -> bool:
    try:
        return answer(client, model) == value
    except TidegateError:
        return False


def test_ten_thousand_directories_without_a_version_hide_none(tmp_path: Path) -> None:
    root = tmp_path / "r"
    for number in range(2, 10_000):
        (root / "many" / str(number)).mkdir(parents=True)
    publish(root, "many", 1, adding(1))
    publish(root, "good", 1, adding(1))
    with (
        EngineProcess(tmp_path / "e", repository=root, allow_unverified=True, poll_seconds=0.05) as engine,
        asking(engine, "good") as problems,
        engine.client() as client,
    ):
        eventually(lambda: _answers(client, "many", 2), 60)
        assert not problems
