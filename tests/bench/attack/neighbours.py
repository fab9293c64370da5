"""What one model's trouble does to others: many requests that time out at once, and a lone request beside a flood."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.bench.attack.full_queues import Load, loaded
from tests.bench.attack.places import crowd, good_client
from tests.bench.attack.siege import GoodClients, engine_with_models, quiet
from tests.bench.rows import Row

REQUESTS = 16_000
LONE, TURNS = 10_000, 40
BEGIN = 10  # requests of a turn that do not count, in which the flood comes or goes
FLOOD_SECONDS = 120


def mass_time_out() -> Sequence[Row]:
    """16,000 requests whose deadlines pass together, behind a call that never returns."""
    # Of the default queue connections with so many requests would leave the last eighth to others.
    with engine_with_models(batching={"max_queued_rows": 2 * REQUESTS}) as engine:
        before = quiet(engine)
        with GoodClients(engine) as clients:
            found = _run(crowd("mass_time_out", engine.addresses["grpc"]))
            felt = clients.end()
    codes, late = found["codes"], [1e3 * one for one in found["late"]] or [0.0] * 4
    answered = REQUESTS - codes.get("silence", 0)
    latest, ratio = late[3], felt.p99 / before.p99
    print(f"mass-time-out: gRPC codes {codes}, all sent after {found['sent_after']:.2f} s")
    words = (
        f"first {late[0]:.1f}, median {late[1]:.1f}; of the {found['known']:,} whose deadline is known to a millisecond"
    )
    floor = f"mass-time-out: {REQUESTS:,} requests read and refused at once, the floor of the former"
    others = f"quiet {before.p99:.1f}, now {felt.p99:.1f} ms; median {before.median:.1f} and {felt.median:.1f} ms"
    return [
        Row(f"mass-time-out: answered of {REQUESTS:,}", answered, "requests", "all", answered == REQUESTS),
        Row(f"mass-time-out: latest answer after its deadline ({words})", latest, "ms", "at most 10", latest <= 10),
        Row(floor, 1e3 * found["refused"], "ms", "-", None),
        Row(f"mass-time-out: p99 of another model ({others})", ratio, "times", "at most 2", ratio <= 2),
    ]


def lone_request() -> Sequence[Row]:
    """10,000 requests to one model, one after the other, quiet and as many beside a flood, by turns of a quarter of a
    second: a busy second of the machine meets both."""
    latencies: dict[bool, list[float]] = {True: [], False: []}
    with engine_with_models() as engine:
        address = engine.addresses["grpc"]
        lone = good_client("lone", address, "small", str(LONE // TURNS + BEGIN))
        with lone, loaded(address, Load("other", 1, 8, 32), FLOOD_SECONDS) as flood:
            for turn in range(2 * TURNS):
                flooded = turn % 4 in (1, 2)
                flood.send_signal(signal.SIGCONT if flooded else signal.SIGSTOP)
                latencies[flooded] += _turn(lone)[BEGIN:]
            assert flood.poll() is None, "the flood ended before its time"
            lone.kill()
    half, half_beside = (1e3 * float(np.median(latencies[flooded])) for flooded in (False, True))
    most, most_beside = (1e3 * float(np.quantile(latencies[flooded], 0.99)) for flooded in (False, True))
    words = f"quiet median {half:.2f} and p99 {most:.2f} ms, beside it {half_beside:.2f} and {most_beside:.2f} ms"
    ratio = most_beside / most
    return [Row(f"lone-request: p99 beside a flooded model ({words})", ratio, "times", "at most 1.5", ratio <= 1.5)]


def _turn(lone: subprocess.Popen[str]) -> list[float]:
    """The latencies of a turn of the lone client."""
    assert lone.stdin is not None
    assert lone.stdout is not None
    lone.stdin.write("\n")
    lone.stdin.flush()
    latencies: list[float] = json.loads(lone.stdout.readline())
    return latencies


def _run(process: subprocess.Popen[str]) -> Any:
    """What a client printed in its last line."""
    with process:
        try:
            said, _ = process.communicate(timeout=FLOOD_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return json.loads(said.splitlines()[-1])
