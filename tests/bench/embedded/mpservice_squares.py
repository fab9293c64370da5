"""The article's 880 squares by mpservice; run by the Python of its own environment, prints seconds for each run.

The number of runs is its argument. Its model is the article's, in a process of its own, which is how mpservice batches.
"""

import asyncio
import json
import math
import sys
import time
from typing import Any

from mpservice.mpserver import AsyncServer, ProcessServlet, Worker

NUMBERS = range(880)


class Squares(Worker):  # type: ignore[misc]
    """Sleeps for a millisecond times the logarithm of how many numbers there are."""

    def call(self, x: list[int]) -> list[int]:
        time.sleep(0.001 * math.log(len(x) + 1))
        return [number * number for number in x]


async def measure(runs: int) -> list[float]:
    """Seconds that each run takes, after one that counts for nothing; all numbers are asked at once."""
    found = []
    servlet = ProcessServlet(Squares, batch_size=200, batch_wait_time=0.01)
    async with AsyncServer(servlet, capacity=1024) as server:
        for _ in range(runs + 1):
            start = time.perf_counter()
            answers: list[Any] = await asyncio.gather(*(server.call(number, timeout=60) for number in NUMBERS))
            found.append(time.perf_counter() - start)
            if answers != [number * number for number in NUMBERS]:
                raise RuntimeError("an answer is wrong")
    return found[1:]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
