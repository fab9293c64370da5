"""Loads that fail or follow each other at once: one that never succeeds, a model removed and added again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.bench.lifecycle.engines import folder
from tests.bench.rows import Row
from tests.support.engine.model_server import ModelServerProcess
from tests.support.engine.process import EngineProcess
from tests.support.engine.reloading import ask_reload, reload_models
from tests.support.models.hard_loads import COUNTS, LEAVES_SLOWLY
from tests.support.models.versions import Draft, publish

CORRUPT_SECONDS = 5.0
AGAIN = 40


def measure() -> Sequence[Row]:
    """All three, on engines of their own."""
    return [*_corrupt(), *_again()]


def _corrupt() -> Sequence[Row]:
    with folder() as place:
        tries = place / "tries"
        publish(place / "models" / "m", "m", 1, Draft(files={"model.py": COUNTS.format(path=str(tries))}))
        flags = ("--max_num_load_retries=0", "--load_retry_interval_micros=0", "--model_name=m")
        server = ModelServerProcess(place / "server", *flags, f"--model_base_path={place / 'models' / 'm' / 'm'}")
        with server:
            time.sleep(CORRUPT_SECONDS)
            count, lines = len(tries.read_text()), len(server.said().splitlines())
    words = f"loading: tries of a corrupt model in {CORRUPT_SECONDS:.0f} s with 0 retries ({lines:,} lines of log)"
    return [Row(words, count, "", "1", count == 1)]


def _again() -> Sequence[Row]:
    with folder() as place:
        publish(place / "models", "m", 1, Draft(files={"model.py": LEAVES_SLOWLY}))
        models = {"m": place / "models" / "m"}
        failed: list[str] = []
        with EngineProcess(place / "engine", roots=[place / "models"], allow_unverified=True) as engine:
            address = engine.addresses["grpc"]
            for _ in range(AGAIN):
                code, said = reload_models(address, models)
                if code != "OK":
                    failed.append(said)
                reload_models(address, {})
            empty, _ = ask_reload(address, b"")
    for line in sorted(set(failed))[:2]:
        print(f"loading: {line}")
    return [
        Row(f"loading: a model removed and added at once fails, of {AGAIN}", len(failed), "", "0", not failed),
        Row(
            f"loading: an empty ReloadConfigRequest gives {empty}",
            1,
            "",
            "INVALID_ARGUMENT",
            empty == "INVALID_ARGUMENT",
        ),
    ]
