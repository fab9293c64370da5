"""Loads end as they should: a model that cannot load is tried as often as was said, one that comes again comes."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.support.engine_process import EngineProcess
from tests.support.eventually import eventually
from tests.support.model_server_process import ModelServerProcess
from tests.support.reloading import ask_reload, reload_models
from tests.support.versions import Draft, adding, publish

COUNTS = """
with open({path!r}, "a") as tries:
    tries.write("x")
raise RuntimeError("no such luck")
"""
LEAVES_SLOWLY = """
import time

class Model:
    def __del__(self):
        time.sleep(0.05)

    def predict(self, inputs):
        return {"y": inputs["x"]}
"""


def test_no_retries_are_none_and_the_log_says_it_once(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    publish(tmp_path, "m", 1, Draft(files={"model.py": COUNTS.format(path=str(tries))}))
    flags = ("--max_num_load_retries=0", "--load_retry_interval_micros=0", "--model_name=m")
    with ModelServerProcess(tmp_path / "server", *flags, f"--model_base_path={tmp_path / 'm'}") as server:
        eventually(tries.exists)
        with contextlib.suppress(AssertionError):
            eventually(lambda: len(tries.read_text()) > 1, 2)
        assert tries.read_text() == "x"
        assert server.said().count("Traceback") <= 1


def test_a_number_of_retries_is_that_number(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    publish(tmp_path, "m", 1, Draft(files={"model.py": COUNTS.format(path=str(tries))}))
    flags = ("--max_num_load_retries=2", "--load_retry_interval_micros=1000", "--model_name=m")
    with ModelServerProcess(tmp_path / "server", *flags, f"--model_base_path={tmp_path / 'm'}") as server:
        eventually(lambda: tries.exists() and len(tries.read_text()) == 3)
        with contextlib.suppress(AssertionError):
            eventually(lambda: len(tries.read_text()) > 3, 2)
        assert tries.read_text() == "xxx"
        assert server.said().count("Traceback") <= 1


def test_a_model_that_was_removed_comes_again_at_once(tmp_path: Path) -> None:
    publish(tmp_path / "models", "m", 1, Draft(files={"model.py": LEAVES_SLOWLY}))
    models = {"m": tmp_path / "models" / "m"}
    with EngineProcess(tmp_path / "engine", roots=[tmp_path / "models"], allow_unverified=True) as engine:
        address = engine.addresses["grpc"]
        for _ in range(20):
            assert reload_models(address, models) == ("OK", "")
            assert reload_models(address, {}) == ("OK", "")


def test_an_empty_reload_request_is_refused(tmp_path: Path) -> None:
    publish(tmp_path / "models", "m", 1, adding(1))
    with EngineProcess(tmp_path / "engine", roots=[tmp_path / "models"], allow_unverified=True) as engine:
        address = engine.addresses["grpc"]
        assert reload_models(address, {"m": tmp_path / "models" / "m"}) == ("OK", "")
        code, said = ask_reload(address, b"")
        assert (code, "config" in said) == ("INVALID_ARGUMENT", True)
        with engine.client() as client:
            assert client.predict("m", {"x": [1.0]}).version == 1, "and nothing was changed"
