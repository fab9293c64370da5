"""Loads end as they should: a model that cannot load is tried as often as was said, one that comes again comes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.model_server import ModelServerProcess
from tests.support.engine.process import EngineProcess
from tests.support.engine.reloading import ask_reload, reload_models
from tests.support.eventually import eventually
from tests.support.models.hard_loads import COUNTS, LEAVES_SLOWLY
from tests.support.models.versions import Draft, adding, publish

ONE = np.ones(1, np.float32)


@pytest.mark.parametrize("retries", [0, 2])
def test_a_number_of_retries_is_that_number_and_the_log_shows_one_trace(tmp_path: Path, retries: int) -> None:
    tries = tmp_path / "tries"
    publish(tmp_path, "m", 1, Draft(files={"model.py": COUNTS.format(path=str(tries))}))
    flags = (f"--max_num_load_retries={retries}", "--load_retry_interval_micros=0", "--model_name=m")
    with ModelServerProcess(tmp_path / "server", *flags, f"--model_base_path={tmp_path / 'm'}") as server:
        eventually(lambda: f"m:1 did not load, the last of {retries + 1} tries" in server.said())
        assert server.said().count("m:1 did not load") == retries + 1
        assert server.stop() == 0
        assert server.said().count("Traceback") == 2, "what the model raised and what that means, both once"
        assert tries.read_text() == "x" * (retries + 1)


def test_a_model_that_was_removed_comes_again_at_once(tmp_path: Path) -> None:
    publish(tmp_path / "models", "m", 1, Draft(files={"model.py": LEAVES_SLOWLY}))
    models = {"m": tmp_path / "models" / "m"}
    with EngineProcess(tmp_path / "engine", roots=[tmp_path / "models"], allow_unverified=True) as engine:
        address = engine.addresses["grpc"]
        with engine.client() as client:
            for _ in range(20):
                assert reload_models(address, models) == ("OK", "")
                assert client.predict("m", {"x": ONE}).version == 1, "it is what was asked for, not what is leaving"
                assert reload_models(address, {}) == ("OK", "")


def test_an_empty_reload_request_is_refused(tmp_path: Path) -> None:
    publish(tmp_path / "models", "m", 1, adding(1))
    with EngineProcess(tmp_path / "engine", roots=[tmp_path / "models"], allow_unverified=True) as engine:
        address = engine.addresses["grpc"]
        assert reload_models(address, {"m": tmp_path / "models" / "m"}) == ("OK", "")
        code, said = ask_reload(address, b"")
        assert (code, "Only ModelConfigList is currently supported" in said) == ("INVALID_ARGUMENT", True)
        with engine.client() as client:
            assert client.predict("m", {"x": ONE}).version == 1, "and nothing was changed"
