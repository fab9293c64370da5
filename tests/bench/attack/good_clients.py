"""A good client in a process of its own: it asks a small model by gRPC or by REST, or for health on new connections.

It has its moments to ask, a hundred in a second, and is never put off them: an answer's latency counts from the moment,
so that a standstill is felt by everybody who would have asked in it, not by one. `siege` starts this; a line on
standard input ends it, and then it prints latencies, refusals and wrong answers as JSON.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import TidegateError

EVERY_SECONDS = {"grpc": 0.01, "rest": 0.01, "health": 0.1}
TIMEOUT_SECONDS = 10.0
WARM_SECONDS = 0.5
TOLD = 20  # refusals and wrong answers whose words are kept; all are counted


@dataclass(slots=True)
class Tally:
    """`latencies` in seconds of correct answers; `refused` and `wrong` count the others, `said` has words of theirs."""

    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    wrong: int = 0
    said: list[str] = field(default_factory=list)

    def note(self, moment: float, problem: str, *, wrong: bool = False) -> None:
        """An answer, or why there was none."""
        if not problem:
            self.latencies.append(time.perf_counter() - moment)
            return
        self.wrong += wrong
        self.refused += not wrong
        if len(self.said) < TOLD:
            self.said.append(problem)


def moments(every: float, stop: threading.Event) -> Iterator[float]:
    """When to ask; those that have passed already come at once, but for those before a time-out."""
    moment = time.perf_counter()
    while not stop.wait(max(0.0, moment - time.perf_counter())):
        yield moment
        moment = max(moment + every, time.perf_counter() - TIMEOUT_SECONDS)


def ask_grpc(address: str, model: str, stop: threading.Event, tally: Tally) -> None:
    """One request after the other over one channel."""
    with Client(address) as client:
        for number, moment in enumerate(moments(EVERY_SECONDS["grpc"], stop)):
            value = float(number % 1000)
            try:
                answer = client.predict(model, {"x": np.array([value], np.float32)}, timeout=TIMEOUT_SECONDS)
            except TidegateError as error:
                tally.note(moment, f"gRPC: {error.message}")
                continue
            said = answer.outputs["y"].tolist()
            tally.note(moment, "" if said == [2 * value] else f"gRPC: {value} gave {said}", wrong=True)


def ask_rest(address: str, model: str, stop: threading.Event, tally: Tally) -> None:
    """One request after the other over one connection, which is opened again where it was lost."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_SECONDS)
    for number, moment in enumerate(moments(EVERY_SECONDS["rest"], stop)):
        value = float(number % 1000)
        try:
            connection.request("POST", f"/v1/models/{model}:predict", json.dumps({"instances": [value]}))
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            tally.note(moment, f"REST: {error!r}")
            connection.close()
            continue
        if response.status != 200:
            tally.note(moment, f"REST: {response.status} {body[:200]!r}")
            continue
        said = json.loads(body)["predictions"]
        tally.note(moment, "" if said == [2 * value] else f"REST: {value} gave {said}", wrong=True)
    connection.close()


def ask_health(address: str, model: str, stop: threading.Event, tally: Tally) -> None:
    """Whether the engine lives, over a new connection each time, as an orchestrator asks."""
    for moment in moments(EVERY_SECONDS["health"], stop):
        connection = http.client.HTTPConnection(address, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/v2/health/live")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            tally.note(moment, f"health: {error!r}")
        else:
            tally.note(moment, "" if status == 200 else f"health: {status}")
        finally:
            connection.close()


ASKERS: dict[str, Callable[[str, str, threading.Event, Tally], None]] = {
    "grpc": ask_grpc,
    "rest": ask_rest,
    "health": ask_health,
}


def main(kind: str, address: str, model: str) -> None:
    """Asks until a line comes in; what the first moments of the process itself take does not count."""
    before = threading.Timer(WARM_SECONDS, (warm := threading.Event()).set)
    before.start()
    ASKERS[kind](address, model, warm, Tally())
    stop, tally = threading.Event(), Tally()
    thread = threading.Thread(target=ASKERS[kind], args=(address, model, stop, tally))
    thread.start()
    print("asking", flush=True)
    sys.stdin.readline()
    stop.set()
    thread.join()
    found = {"latencies": tally.latencies, "refused": tally.refused, "wrong": tally.wrong, "said": tally.said}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
