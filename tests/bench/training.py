"""The loads that a guided wheel is optimized for; `make wheels` runs it in the instrumented wheel.

    PYTHONPATH=WHERE_THE_WHEEL_IS python -m tests.bench.training

What no load reaches counts as rare, and is built for size instead of speed: so each endpoint has its loads, with small
and large tensors, with TLS, beside worker processes and behind a fleet's router, and every answer goes into the log.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench.load import Load
from tests.bench.router.__main__ import router
from tests.bench.servers import LOAD_CORE, SERVER_CORE, Running, tidegate
from tests.bench.serving.workloads import IMAGE, INFER, NULL, PREDICT, Workload, publish
from tests.support.neighbours.certificates import Authority

SECONDS = 1.0
WIDE = Workload("wide", 64)
MODELS = (NULL, WIDE, IMAGE)


@contextmanager
def engine(place: Path, **config: object) -> Iterator[Running]:
    """`tidegate serve` with all models; every answer is logged."""
    place.mkdir()
    for model in MODELS:
        publish(model, place / "models")
    with tidegate(place, place / "models", SERVER_CORE, logging=True, **config) as server:
        yield server


def predict(server: Running, model: Workload, clients: int, streams: int = 1, scheme: str = "http") -> None:
    """TensorFlow Serving's gRPC; `streams` clients share a connection."""
    load(server, clients, streams, scheme).grpc(server.grpc, PREDICT, model.predict_bytes())


def predict_rest(server: Running, model: Workload, clients: int, scheme: str = "http") -> None:
    """TensorFlow Serving's REST."""
    load(server, clients, 1, scheme).rest(server.rest, model.rest_path, model.rest_body())


def infer(server: Running, model: Workload, clients: int) -> None:
    """Both protocols of Open Inference."""
    load(server, clients).grpc(server.grpc, INFER, model.infer_bytes())
    load(server, clients).rest(server.rest, model.infer_path, model.infer_body())


def load(server: Running, clients: int, streams: int = 1, scheme: str = "http") -> Load:
    """Clients that ask again as soon as they have their answer."""
    return Load(clients, SECONDS, LOAD_CORE, server.pid, streams, scheme)


def main() -> None:
    """Every load, one after the other."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        pair = Authority(place).issue("server")
        alone = stack.enter_context(engine(place / "alone", isolation="engine"))
        for clients, streams in ((1, 1), (64, 1), (64, 16)):
            predict(alone, NULL, clients, streams)
        for clients in (1, 64):
            predict_rest(alone, NULL, clients)
        for model, clients in ((NULL, 64), (WIDE, 64), (IMAGE, 8)):
            infer(alone, model, clients)
        for forwarding in (
            stack.enter_context(engine(place / "workers", isolation="own")),
            stack.enter_context(router(alone)),
        ):
            predict(forwarding, NULL, 64)
            predict(forwarding, NULL, 64, 16)
            predict_rest(forwarding, NULL, 64)
        secured = stack.enter_context(engine(place / "tls", data_certificate=pair.certificate, data_key=pair.key))
        predict(secured, NULL, 64, scheme="https")
        predict_rest(secured, NULL, 64, scheme="https")


if __name__ == "__main__":
    main()
