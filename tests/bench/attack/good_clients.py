"""Well-behaved clients in a process of their own: they ask a small model at a steady rate by gRPC and by REST.

Started by `siege`; a line on standard input ends it, and then it prints latencies, refusals and wrong answers as JSON.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import TidegateError

PAUSE_SECONDS = 0.01
TIMEOUT_SECONDS = 10.0


@dataclass(slots=True)
class Tally:
    """`latencies` in seconds of correct answers; `refused` and `wrong` say what else happened."""

    latencies: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def ask_grpc(address: str, model: str, stop: threading.Event, tally: Tally) -> None:
    """One request after the other over one channel."""
    with Client(address) as client:
        number = 0.0
        while not stop.wait(PAUSE_SECONDS):
            number = (number + 1) % 1000
            began = time.perf_counter()
            try:
                answer = client.predict(model, {"x": np.float32([number])}, timeout=TIMEOUT_SECONDS)
            except TidegateError as error:
                tally.refused.append(f"gRPC: {error.message}")
                continue
            _note(tally, began, float(answer["y"][0]), number)


def ask_rest(address: str, model: str, stop: threading.Event, tally: Tally) -> None:
    """One request after the other over one connection, which is opened again where it was lost."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_SECONDS)
    number = 0.0
    while not stop.wait(PAUSE_SECONDS):
        number = (number + 1) % 1000
        began = time.perf_counter()
        try:
            connection.request("POST", f"/v1/models/{model}:predict", json.dumps({"instances": [number]}))
            response = connection.getresponse()
            body = response.read()
        except OSError as error:
            tally.refused.append(f"REST: {error!r}")
            connection.close()
            continue
        if response.status != 200:
            tally.refused.append(f"REST: {response.status} {body[:200]!r}")
            continue
        _note(tally, began, float(json.loads(body)["predictions"][0]), number)
    connection.close()


def _note(tally: Tally, began: float, answer: float, number: float) -> None:
    tally.latencies.append(time.perf_counter() - began)
    if answer != 2 * number:
        tally.wrong.append(f"{number} gave {answer}")


def main(grpc: str, rest: str, model: str) -> None:
    """Asks until a line comes in."""
    stop = threading.Event()
    tallies = {"grpc": Tally(), "rest": Tally()}
    threads = [
        threading.Thread(target=ask_grpc, args=(grpc, model, stop, tallies["grpc"])),
        threading.Thread(target=ask_rest, args=(rest, model, stop, tallies["rest"])),
    ]
    for thread in threads:
        thread.start()
    print("asking", flush=True)
    sys.stdin.readline()
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps({key: [one.latencies, one.refused, one.wrong] for key, one in tallies.items()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
