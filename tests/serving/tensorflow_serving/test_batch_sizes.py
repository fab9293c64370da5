"""`allowed_batch_sizes` by flags of the model server: the model notes what it is asked for, clients do not see it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.clients import rest
from tests.support.engine.model_server import ModelServerProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

RECORDER = """
import numpy as np

class Model:
    def __init__(self, directory):
        self.asked = directory.parent / "asked.txt"

    def predict(self, inputs):
        with self.asked.open("a") as file:
            file.write(f"{len(inputs['x'])}\\n")
        if (inputs["x"] < 0).any():
            raise ValueError("x is negative")
        return {"y": inputs["x"] + np.float32(1)}
"""


class Bench:
    """A model server with one model and a file of batching parameters."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parameters = folder / "batching.txt"
        publish(folder, "m", 1, Draft(files={"model.py": RECORDER}))
        models = folder / "models.config"
        models.write_text(
            f"model_config_list {{ config {{ name: 'm' base_path: '{folder / 'm'}' model_platform: 'python' }} }}"
        )
        self.allow(2, 4, 8)
        self.server = ModelServerProcess(
            folder / "server",
            f"--model_config_file={models}",
            "--enable_batching",
            f"--batching_parameters_file={self.parameters}",
        )

    def allow(self, *sizes: int, timeout_us: int = 0) -> None:
        aside = self.parameters.with_suffix(".new")
        aside.write_text(
            f"max_batch_size {{ value: {sizes[-1]} }} batch_timeout_micros {{ value: {timeout_us} }} "
            f"num_batch_threads {{ value: 1 }} allowed_batch_sizes: {list(sizes)}"
        )
        aside.replace(self.parameters)

    def reload(self, *sizes: int, timeout_us: int = 0) -> None:
        self.allow(*sizes, timeout_us=timeout_us)
        self.hang_up()
        eventually(lambda: self.batching() == (list(sizes), timeout_us))
        eventually(lambda: self.limits() == (sizes[-1], timeout_us / 1e6))

    def hang_up(self) -> None:
        assert self.server.process is not None
        os.kill(self.server.process.pid, signal.SIGHUP)

    def batching(self) -> tuple[object, object]:
        with self.server.control() as control:
            values = {value.key: value.value for value in control.config()}
        return values["batching.allowed_batch_sizes"], values["batching.timeout_us"]

    def limits(self) -> tuple[float, ...]:
        """Rows and seconds at which the queue closes a batch, a moment after the configuration says so."""
        with self.server.control() as control:
            counters = control.status("m").counters
        families = "tidegate_max_batch_rows{", "tidegate_batch_timeout_seconds{"
        return tuple(value for name in families for key, value in counters.items() if key.startswith(name))

    def ask(self, *rows: float) -> rest.Reply:
        return rest.predict(str(self.server.addresses["rest"]), "m", list(rows))

    def asked(self) -> list[int]:
        """Numbers of rows, in order."""
        return [int(line) for line in (self.folder / "m" / "asked.txt").read_text().split()]

    def padding(self) -> float:
        metrics = rest.call(str(self.server.addresses["rest"]), "GET", "/metrics").body.decode()
        (line,) = [line for line in metrics.splitlines() if line.startswith("tidegate_padding_rows_total{")]
        return float(line.rpartition(" ")[2])


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bench"))
    with made.server:
        yield made


def test_only_allowed_sizes_reach_the_model_from_the_warm_up_on(bench: Bench) -> None:
    assert bench.asked() == [2], "the example has one row"
    before = bench.padding()
    assert bench.ask(1, 2, 3).json() == {"predictions": [2.0, 3.0, 4.0]}
    assert bench.ask(*range(11)).json() == {"predictions": [float(row + 1) for row in range(11)]}
    assert bench.asked()[1:] == [4, 8, 4]
    assert bench.padding() - before == 2


def test_requests_that_run_together_get_their_own_rows_and_the_bad_one_fails_alone(bench: Bench) -> None:
    bench.reload(2, 4, 8, timeout_us=60_000_000)
    before = len(bench.asked())
    requests = [[10.0, 20.0, 30.0, 40.0], [-1.0], [50.0], [60.0, 70.0]]
    with ThreadPoolExecutor(len(requests)) as pool:
        replies = list(pool.map(lambda rows: bench.ask(*rows), requests))
    assert [reply.status for reply in replies] == [200, 500, 200, 200]
    assert [reply.json()["predictions"] for reply in (replies[0], *replies[2:])] == [
        [11.0, 21.0, 31.0, 41.0],
        [51.0],
        [61.0, 71.0],
    ]
    asked = bench.asked()[before:]
    assert (asked[0], {2, 8} <= set(asked) <= {2, 4, 8}) == (8, True), asked


def test_other_sizes_count_from_a_reload_on(bench: Bench) -> None:
    bench.reload(5)
    assert bench.ask(1, 2, 3, 4, 5, 6).json() == {"predictions": [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]}
    assert bench.asked()[-2:] == [5, 5]
    bench.allow(5, 4)
    bench.hang_up()
    eventually(lambda: "allowed_batch_sizes must be positive and in ascending order" in bench.server.said())
    assert bench.ask(7).json() == {"predictions": [8.0]}
    assert bench.asked()[-1] == 5
