"""Measures the engine inside a program, after "Service Batching from Scratch"; writes `build/embedded.json`.

880 numbers are squared by a model that sleeps for a millisecond times the logarithm of their number: one by one, and
all at once, with batches that close as soon as the model is free and with the article's own (200 rows, 0.1 s); so
does mpservice, which the article became, in the same run.
"""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.bench.environments import environment
from tests.bench.rows import Row, run_group

from tidegate_serving.config import BatchingConfig
from tidegate_serving.contract.tensors import Array
from tidegate_serving.engine import Engine

NUMBERS = range(880)
RUNS = 5
ARTICLE = BatchingConfig(max_batch_rows=200, timeout_us=100_000)
MOST_SECONDS = 0.040
THE_ARTICLES = 734


def squares(x: Array) -> dict[str, Array]:
    """The article's model."""
    time.sleep(0.001 * math.log(len(x) + 1))
    return {"y": x * x}


async def one_by_one(engine: Engine) -> list[int]:
    """Each number once the one before is answered."""
    return [await ask(engine, number) for number in NUMBERS]


async def all_at_once(engine: Engine) -> list[int]:
    """All numbers, none waiting for another."""
    return await asyncio.gather(*(ask(engine, number) for number in NUMBERS))


async def ask(engine: Engine, number: int) -> int:
    """One number's square."""
    return int((await engine.predict_async("squares", {"x": [number]}, timeout=300))["y"][0])


def seconds(engine: Engine, run: Callable[[Engine], Awaitable[list[int]]]) -> float:
    """How long a run takes; RuntimeError where an answer is wrong."""
    start = time.perf_counter()
    found = asyncio.run(_finished(run(engine)))
    taken = time.perf_counter() - start
    if found != [number * number for number in NUMBERS]:
        raise RuntimeError("an answer is wrong")
    return taken


async def _finished(run: Awaitable[list[int]]) -> list[int]:
    return await run


def article() -> Sequence[Row]:
    """The median of several runs; the article's own settings take 90 seconds one by one, so that runs once."""
    with Engine() as engine:
        engine.serve("squares", squares, inputs={"x": "int64"})
        single = sorted(seconds(engine, one_by_one) for _ in range(RUNS))[RUNS // 2]
        together = sorted(seconds(engine, all_at_once) for _ in range(RUNS))[RUNS // 2]
        engine.traffic.set_batching("squares", ARTICLE)
        slow = seconds(engine, one_by_one)
        batched = sorted(seconds(engine, all_at_once) for _ in range(RUNS))[RUNS // 2]
    peer = sorted(_by_mpservice())[RUNS // 2]
    return [
        Row("880 squares, one by one", single, "s", "", None),
        Row("880 squares, all at once", together * 1000, "ms", "<= 40", together <= MOST_SECONDS),
        Row("the same as the article has it, one by one", slow, "s", "", None),
        Row("as the article has it, all at once", batched * 1000, "ms", "", None),
        Row("times faster", slow / batched, "", f">= {THE_ARTICLES}", slow / batched >= THE_ARTICLES),
        Row("880 squares, all at once, by mpservice", peer * 1000, "ms", "", None),
        Row("all at once: mpservice's time over ours", peer / together, "times", "> 1", peer > together),
    ]


def _by_mpservice() -> list[float]:
    python = environment("mpservice", ["mpservice==0.16.8"]) / "bin/python"
    command = [str(python), str(Path(__file__).with_name("mpservice_squares.py")), str(RUNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(run_group("embedded", [("article", article)], sys.argv[1:]))
