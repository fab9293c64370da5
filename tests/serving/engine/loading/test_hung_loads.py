"""Versions whose load never ends keep no other version from loading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import TidegateError

HANGS = "import threading\nthreading.Event().wait()\n"


def answers(client: Client, name: str) -> bool:
    try:
        return bool(client.predict(name, {"x": np.array([1], np.float32)}).outputs["y"] == [2])
    except TidegateError:
        return False


def test_loads_that_never_end_give_their_places_up(tmp_path: Path) -> None:
    config = {
        "allow_unverified": True,
        "poll_seconds": 0.2,
        "load_threads": 1,
        "load_seconds": 0.5,
        "drain_seconds": 0.5,
    }
    publish(tmp_path / "r", "first", 1, adding(1))
    with EngineProcess(tmp_path / "engine", repository=tmp_path / "r", **config) as engine, engine.client() as client:
        for name in ("a", "b", "c"):
            publish(tmp_path / "r", name, 1, Draft(files={"model.py": HANGS}))
        publish(tmp_path / "r", "later", 1, adding(1))
        eventually(lambda: "takes longer than 0.5 s: others go on beside it" in engine.said())
        eventually(lambda: answers(client, "later"))
        assert answers(client, "first")
