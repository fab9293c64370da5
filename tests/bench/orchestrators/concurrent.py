"""A hundred releases of one model at once: one winner at a time, and each of the others says why it was none.

Every release is the whole of it, gates and all, on a thread of its own against one engine under traffic; every fourth
candidate fails on real rows. `RELEASES=12` for fewer.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.bench.rows import Row
from tests.support.release.world import (
    BETTER,
    RAISES,
    Endpoints,
    World,
    available,
    engine,
    make_world,
    serve_first,
    traffic,
)

from tidegate_operators.steps import CanaryRule, Evidence
from tidegate_pipelines.release import Release, release
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.control_client import ControlClient

NAME = "contested"
ENDS = ("released", "refused", "superseded")
RULE = CanaryRule(pairs=10, within_seconds=120.0, max_error_share=0.3, max_slow_share=0.9)


@dataclass(frozen=True, slots=True)
class Ended:
    """How the release of one version ended, and in which words."""

    version: int
    how: str
    why: str


def measure() -> list[Row]:
    count = int(os.environ.get("RELEASES", "100"))
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        world = make_world(Path(folder))
        with engine(world) as endpoints:
            serve_first(endpoints, world, NAME)
            ended, answered = _release_all(world, endpoints, count)
            left = _left(endpoints)
            serving = available(endpoints, NAME)
    for one in ended:
        print(f"{one.version}: {one.how}: {one.why}", flush=True)
    how = Counter(one.how for one in ended)
    winners = [one.version for one in ended if one.how == "released"]
    odd = [one for one in ended if one.how not in ENDS or f"{NAME}:{one.version}" not in one.why]
    in_turn = list(dict.fromkeys(answered))
    one_at_a_time = in_turn == sorted(in_turn) and set(in_turn) <= {1, *winners} and serving == [max(winners)]
    name = f"{count} releases at once"
    return [
        *(Row(f"{name}: {end}", how[end], "releases", "reported", None) for end in ENDS),
        Row(f"{name}: ended in another way, or without a reason", len(odd), "releases", "0", not odd),
        Row(
            f"{name}: clients saw one winner after another, and the last one serves",
            float(one_at_a_time),
            "true",
            "1",
            one_at_a_time,
        ),
        Row(f"{name}: shadows, splits and candidates left", left, "left", "0", left == 0),
    ]


def _release_all(world: World, endpoints: Endpoints, count: int) -> tuple[Sequence[Ended], Sequence[int]]:
    sources = [RAISES if number % 4 == 3 else BETTER for number in range(count)]
    directories = [world.publish(2 + number, source, name=NAME) for number, source in enumerate(sources)]
    policy = world.policy("robustness")
    together = threading.Barrier(count)

    def one(directory: Path) -> Ended:
        together.wait(300)
        version = int(directory.name)
        request = Release(
            directory, Evidence(world.held_out, policy=policy), world.private_key, endpoints.control, RULE, 600.0
        )
        try:
            release(request)
        except TidegateError as error:
            return Ended(version, error.code, error.message)
        return Ended(version, "released", f"{NAME}:{version} serves")

    with ThreadPoolExecutor(count) as threads, traffic(endpoints.grpc, NAME) as answered:
        ended = list(threads.map(one, directories))
    return ended, answered


def _left(endpoints: Endpoints) -> int:
    with ControlClient(endpoints.control) as client:
        status = client.status(NAME).servable(NAME)
    assert status is not None
    desired = status.desired
    return len(desired.numbers) - 1 + (desired.shadow is not None) + len(status.overrides)
