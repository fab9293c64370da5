"""Measures Predict beside the echo server and beside other servers; writes `build/serving.json`.

Run by `make bench GROUP=serving`. Servers have core 0, the load has core 1, and this is what counts: all servers of a
measure are up, their loads take turns in ROUNDS rounds of SECONDS, and a row is the median of the rounds' ratios.
Absolute figures differ threefold between machines. Every answer is written into the inference log, and models run in
the engine's process, unless a row says otherwise.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.load import Load, Measured, NothingAnswered
from tests.bench.rows import Row, run_group
from tests.bench.servers import LOAD_CORE, SERVER_CORE, Running, echo, program, tidegate
from tests.bench.serving.alone import engine_alone
from tests.bench.serving.peers import Peer, bentoml, litserve, mlserver, mosec, triton
from tests.bench.serving.workloads import (
    IMAGE,
    INFER,
    NULL,
    PREDICT,
    REGRESSION,
    Workload,
    publish,
)

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SECONDS = float(os.environ.get("SECONDS", "3"))
CLIENTS = 64
IMAGE_CLIENTS = 16
PEER_ROWS = (1, 64)
TRITON_STARTS = 4
"""Now and then it stops answering under load, and then it is started again: what counts is how fast it can be."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is sent to a server, and how its address is used."""

    server: Running
    workload: Workload
    protocol: str
    clients: int = CLIENTS
    streams: int = 1
    path: str = ""

    def __call__(self) -> Measured:
        load = Load(self.clients, SECONDS, LOAD_CORE, self.server.pid, self.streams)
        if self.protocol == "rest":
            path = self.path or self.workload.rest_path
            return load.rest(self.server.rest, path, self.workload.rest_body())
        if self.protocol == "infer rest":
            return load.rest(self.server.rest, self.workload.infer_path, self.workload.infer_body())
        if self.protocol == "infer":
            return load.grpc(self.server.grpc, INFER, self.workload.infer_bytes())
        return load.grpc(self.server.grpc, PREDICT, self.workload.predict_bytes())


def by_turns(asks: Mapping[str, Ask]) -> dict[str, list[Measured]]:
    """Each of them once a round; which goes first takes turns too."""
    found: dict[str, list[Measured]] = {name: [] for name in asks}
    names = list(asks)
    for turn in range(ROUNDS):
        for name in names if turn % 2 == 0 else reversed(names):
            found[name].append(asks[name]())
    return found


def ratio(mine: Sequence[Measured], other: Sequence[Measured], of: Callable[[Measured], float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(of(one) / of(two) for one, two in zip(mine, other, strict=True))


def beside(what: str, found: Mapping[str, Sequence[Measured]], least: Mapping[str, float | None]) -> list[Row]:
    """Throughput of the first of `found` over each other's, with the least that it has to reach, None if nothing."""
    name = next(iter(found))
    rows = [Row(f"{what}: {name}", _rate(found[name]), "requests/s", "reported", None)]
    for other, at_least in least.items():
        value = ratio(found[name], found[other], lambda one: one.rps)
        target = "reported" if at_least is None else f">= {at_least}"
        rows.append(
            Row(f"{what}: over {other}", value, "times", target, None if at_least is None else value >= at_least)
        )
    return rows


def _rate(found: Sequence[Measured]) -> float:
    return statistics.median(one.rps for one in found)


@contextlib.contextmanager
def engine(
    place: Path,
    workloads: Sequence[Workload],
    *,
    logging: bool = True,
    isolation: str = "engine",
    **more: object,
) -> Iterator[Running]:
    """Tidegate with these models, each of which answers right."""
    for workload in workloads:
        publish(workload, place / "models")
    with tidegate(place, place / "models", SERVER_CORE, logging=logging, isolation=isolation, **more) as server:
        for workload in workloads:
            workload.check_predict(server.grpc)
            workload.check_rest(server.rest, workload.rest_path)
        yield server


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def alone() -> Sequence[Row]:
    """The engine without protocols and sockets."""
    return engine_alone(ROUNDS, SECONDS)


def null_beside_echo() -> Sequence[Row]:
    """The null model beside the echo on the same stack, which is the limit: throughput, and one client's latency."""
    rows: list[Row] = []
    at_64 = {("grpc", 1): 0.85, ("grpc", 16): 0.75, ("rest", 1): 0.85}
    limit = echo(SERVER_CORE, program("tidegate-echo"))
    with _place() as place, engine(place, [NULL]) as mine, limit as bare:
        for (protocol, streams), least in at_64.items():
            asks = {
                name: Ask(s, NULL, protocol, streams=streams) for name, s in (("tidegate", mine), ("the echo", bare))
            }
            shape = f"{CLIENTS // streams} x {streams} streams" if protocol == "grpc" else f"{CLIENTS} clients"
            found, what = by_turns(asks), f"null, {protocol}, {shape}"
            rows += beside(what, found, {"the echo": least})
            rows.append(_for_processor_time(what, found))
        for clients in (1, 16, 256):
            for protocol in ("grpc", "rest"):
                asks = {name: Ask(s, NULL, protocol, clients) for name, s in (("tidegate", mine), ("the echo", bare))}
                found = by_turns(asks)
                rows += beside(f"null, {protocol}, {clients} clients", found, {"the echo": None})
                if clients == 1:
                    slower = ratio(found["tidegate"], found["the echo"], lambda one: one.p50_us)
                    rows.append(
                        Row(
                            f"null, {protocol}, 1 client: p50 over the echo's", slower, "times", "<= 1.5", slower <= 1.5
                        )
                    )
    return rows


def _for_processor_time(what: str, found: Mapping[str, Sequence[Measured]]) -> Row:
    """What the server could do with a core of its own: other work on the machine, or too little load, count less."""
    value = ratio(found["tidegate"], found["the echo"], lambda one: one.rps / one.server_core_busy)
    return Row(f"{what}: for the same processor time, over the echo", value, "times", "reported", None)


def log_on_and_off() -> Sequence[Row]:
    """What writing every answer into the log costs, writer and all on the same core."""
    rows: list[Row] = []
    with (
        _place() as place,
        engine(place / "logged", [NULL]) as logged,
        engine(place / "plain", [NULL], logging=False) as plain,
    ):
        for protocol in ("grpc", "rest"):
            asks = {"logged": Ask(logged, NULL, protocol), "no log": Ask(plain, NULL, protocol)}
            rows += beside(f"null, {protocol}, {CLIENTS} clients", by_turns(asks), {"no log": 0.95})
    return rows


def worker_pool() -> Sequence[Row]:
    """A version in a process of its own, on the same core."""
    rows: list[Row] = []
    with (
        _place() as place,
        engine(place / "own", [NULL], isolation="own") as own,
        engine(place / "inside", [NULL]) as inside,
    ):
        for protocol in ("grpc", "rest"):
            asks = {"a worker process": Ask(own, NULL, protocol), "in the engine": Ask(inside, NULL, protocol)}
            rows += beside(f"null, {protocol}, {CLIENTS} clients", by_turns(asks), {"in the engine": 0.85})
    return rows


def batches() -> Sequence[Row]:
    """The default batching beside none, at every load: it must cost nothing where there is nothing to batch."""
    rows: list[Row] = []
    alone = {"max_batch_rows": 1}
    for workload in (NULL, REGRESSION):
        with (
            _place() as place,
            engine(place / "batches", [workload]) as mine,
            engine(place / "one-by-one", [workload], batching=alone) as plain,
        ):
            for clients in (1, 4, 16, CLIENTS):
                asks = {
                    "in batches": Ask(mine, workload, "grpc", clients),
                    "one by one": Ask(plain, workload, "grpc", clients),
                }
                rows += beside(f"{workload.name}, grpc, {clients} clients", by_turns(asks), {"one by one": 0.95})
    return rows


def beside_mosec() -> Sequence[Row]:
    """REST beside mosec."""
    return _beside_python("mosec", mosec, ((NULL, 3.0), (REGRESSION, 2.8)), "/inference")


def beside_litserve() -> Sequence[Row]:
    """REST beside LitServe."""
    return _beside_python("LitServe", litserve, ((NULL, None), (REGRESSION, None)), "/predict")


def beside_bentoml() -> Sequence[Row]:
    """REST beside BentoML."""
    return _beside_python("BentoML", bentoml, ((NULL, None), (REGRESSION, None)), "/predict")


def beside_mlserver() -> Sequence[Row]:
    """Open Inference's REST beside MLServer."""
    return _beside_python("MLServer", mlserver, ((NULL, None), (REGRESSION, None)), "")


def _beside_python(
    name: str, start: Peer, workloads: Sequence[tuple[Workload, float | None]], path: str
) -> Sequence[Row]:
    """A peer is asked one by one and in batches: the better of the two counts."""
    rows: list[Row] = []
    protocol = "rest" if path else "infer rest"
    for workload, least in workloads:
        with _place() as place, engine(place / "tidegate", [workload]) as mine, contextlib.ExitStack() as stack:
            asks = {"tidegate": Ask(mine, workload, protocol)}
            for most in PEER_ROWS:
                peer = stack.enter_context(start(workload, place / f"peer-{most}", SERVER_CORE, most))
                asks[f"{name} with batches of {most}"] = Ask(peer, workload, protocol, path=path)
            found = by_turns(asks)
            best = max(list(asks)[1:], key=lambda name: _rate(found[name]))
            rows += beside(
                f"{workload.name}, {protocol}, {CLIENTS} clients",
                found,
                {name: None for name in list(asks)[1:] if name != best} | {best: least},
            )
            rows += _tail(f"{workload.name}, {protocol}", found["tidegate"]) if workload is REGRESSION else []
    return rows


def beside_triton() -> Sequence[Row]:
    """gRPC beside Triton with the same models in C."""
    rows: list[Row] = []
    with _place() as place, engine(place / "tidegate", (NULL, REGRESSION)) as mine:
        for workload, streams, least in ((NULL, 1, 5.0), (NULL, 16, 5.0), (REGRESSION, 1, 3.0)):
            name = "Triton's C backend"
            found = _by_turns_with_triton(
                place, {"tidegate": Ask(mine, workload, "grpc", CLIENTS, streams)}, workload, name
            )
            what = f"{workload.name}, grpc, {CLIENTS // streams} x {streams} streams"
            rows += beside(what, found, {name: least})
            rows += _tail(what, found["tidegate"]) if workload is REGRESSION else []
    return rows


def images() -> Sequence[Row]:
    """600 kB in and out over gRPC beside Triton's Python backend, which has no log and its model in another process."""
    ways = {"logged": (True, "engine"), "no log": (False, "engine"), "a worker process, no log": (False, "own")}
    theirs, name = Workload(f"{IMAGE.name}_python", IMAGE.width), "Triton's Python backend"
    with _place() as place, contextlib.ExitStack() as stack:
        asks = {}
        for way, (logging, isolation) in ways.items():
            folder = place / way.replace(" ", "-")
            server = stack.enter_context(engine(folder, [IMAGE], logging=logging, isolation=isolation))
            asks[way] = Ask(server, IMAGE, "grpc", IMAGE_CLIENTS)
        found = _by_turns_with_triton(place, asks, theirs, name)
    what, least = f"{IMAGE.name}, grpc, {IMAGE_CLIENTS} clients", {"no log": 2.0}
    return [row for way in ways for row in beside(what, {way: found[way], name: found[name]}, {name: least.get(way)})]


def _by_turns_with_triton(
    place: Path, mine: Mapping[str, Ask], theirs: Workload, name: str
) -> dict[str, list[Measured]]:
    """Rounds in which Triton has answered throughout."""
    like = next(iter(mine.values()))
    for start in range(1, TRITON_STARTS + 1):
        with triton(place / f"{theirs.name}-{like.streams}-{start}", SERVER_CORE) as peer:
            theirs.check_infer(peer.grpc)
            try:
                return by_turns({**mine, name: Ask(peer, theirs, "infer", like.clients, like.streams)})
            except NothingAnswered as error:
                if start == TRITON_STARTS:
                    raise
                print(f"Triton is started again: {error}")
    raise AssertionError("the last start returns or raises")


def _tail(what: str, found: Sequence[Measured]) -> list[Row]:
    value = statistics.median(one.p99_us / one.p50_us for one in found)
    return [Row(f"{what}: p99 over p50", value, "times", "<= 3", value <= 3)]


if __name__ == "__main__":
    measures = [
        ("alone", alone),
        ("echo", null_beside_echo),
        ("log", log_on_and_off),
        ("pool", worker_pool),
        ("batches", batches),
        ("mosec", beside_mosec),
        ("litserve", beside_litserve),
        ("bentoml", beside_bentoml),
        ("mlserver", beside_mlserver),
        ("triton", beside_triton),
        ("images", images),
    ]
    sys.exit(run_group("serving", measures, sys.argv[1:]))
