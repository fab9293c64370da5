"""Processes that a model forks take signals as they do elsewhere: Python's own pools end theirs by SIGTERM."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.clients.rest import predict
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import Draft, publish

MODEL = """
import multiprocessing, subprocess, sys, time

class Model:
    def predict(self, inputs):
        forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
        forked.start()
        started = subprocess.Popen([sys.executable, "-S", "-c", "print(1, flush=True); input()"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.stdout.readline()
        for process in forked, started:
            process.terminate()
        forked.join()
        return {"y": inputs["x"] + 100 * forked.exitcode + started.wait()}
"""


@pytest.mark.parametrize("isolation", ["engine", "pool"])
def test_what_a_model_forks_or_starts_ends_by_sigterm_and_the_engine_goes_on(tmp_path: Path, isolation: str) -> None:
    settings = {"roots": [tmp_path / "r"], "allow_unverified": True, "isolation": isolation}
    with EngineProcess(tmp_path / "engine", **settings) as running:
        with running.control() as control:
            push_and_wait(control, publish(tmp_path / "r", "m", 1, Draft(files={"model.py": MODEL})))
        for _ in range(2):
            assert predict(running.addresses["rest"], "m", [0.0]).json() == {"predictions": [-1515.0]}
        assert running.stop() == 0
