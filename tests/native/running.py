"""A data plane of the real extension with a Python model, for the tests beside this file.

Tests hand in callables; requests go over real sockets, and what the callbacks were told is kept.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tests.support.clients.rest import Reply, call
from tests.support.eventually import eventually
from tidegate_native import (
    Batch,
    Batching,
    DataPlane,
    Publish,
    Result,
    SetLog,
    Settings,
    Signature,
    TensorSpec,
)

from tidegate_serving.contract.messages import message
from tidegate_serving.inference_log.reader import connect

MODEL = "m"
Executor = Callable[[Batch], Mapping[str, Any] | Result]
Spec = tuple[str, str, Sequence[int]]
FLOATS: Spec = ("x", "float32", (-1,))
OUTPUT: Spec = ("y", "float32", (-1,))


def signature(inputs: Sequence[Spec] = (FLOATS,), outputs: Sequence[Spec] = (OUTPUT,)) -> Signature:
    """A `serving_default` from (name, dtype, shape) triples."""
    specs = [
        [TensorSpec(name=name, dtype=dtype, shape=shape) for name, dtype, shape in side] for side in (inputs, outputs)
    ]
    return Signature(
        name="serving_default", method_name="tensorflow/serving/predict", inputs=specs[0], outputs=specs[1]
    )


def publish(
    executor: Executor,
    version: int = 1,
    model: str = MODEL,
    made: Signature | None = None,
    max_batch_rows: int = 1024,
    timeout_us: int = 0,
) -> Publish:
    """A change that publishes a model."""
    batching = Batching(max_batch_rows=max_batch_rows, timeout_us=timeout_us)
    return Publish(model=model, version=version, signatures=[made or signature()], executor=executor, batching=batching)


def half_plus_two(batch: Batch) -> dict[str, Any]:
    """The null model."""
    return {"y": batch.inputs["x"] * np.float32(0.5) + np.float32(2.0)}


@dataclass
class Running:
    """A plane and what its callbacks were told."""

    plane: DataPlane
    released: list[tuple[str, int, str]] = field(default_factory=list)
    told: list[Exception | None] = field(default_factory=list)
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    def predict(self, instances: list[Any], model: str = MODEL, **headers: str) -> Reply:
        """A row-form predict over REST."""
        return call(self.rest, "POST", f"/v1/models/{model}:predict", {"instances": instances}, **headers)

    def predictions(self, instances: list[Any]) -> Any:
        """What a predict that succeeds returns."""
        reply = self.predict(instances)
        assert reply.status == 200, reply.body
        return reply.json()["predictions"]

    def error(self, instances: list[Any]) -> tuple[int, str]:
        """Status and text of a predict that fails."""
        reply = self.predict(instances)
        return reply.status, reply.json()["error"]

    @property
    def grpc(self) -> str:
        """Where its gRPC endpoint listens."""
        assert self.plane.grpc_address is not None
        return self.plane.grpc_address

    @property
    def rest(self) -> str:
        assert self.plane.rest_address is not None
        return self.plane.rest_address

    def sample(self, name: str, **labels: str) -> float:
        """The value of a sample of `stats()`; labels in the order that it has them."""
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        return self.plane.stats().get(f"{name}{{{text}}}", 0.0)

    def model_sample(self, name: str, version: int = 1) -> float:
        return self.sample(name, model=MODEL, version=str(version))

    def logged(self, root: Path, rows: int) -> list[dict[str, Any]]:
        """All rows of the log below `root`, once there are this many, by version, request and row."""
        eventually(lambda: self.sample("tidegate_log_written_rows_total", role="primary") >= rows)
        return logged_rows(root)


@contextlib.contextmanager
def running(*changes: Any, control: Callable[[str, bytes], bytes] | None = None, **settings: Any) -> Iterator[Running]:
    """Starts a plane, applies changes and drains it at the end."""
    told: dict[str, list[Any]] = {"released": [], "log": [], "asked": []}

    def ask(method: str, request: bytes) -> bytes:
        told["asked"].append((method, request))
        return control(method, request) if control else b""

    given = {"grpc_address": "127.0.0.1:0", "rest_address": "127.0.0.1:0", "log_block_interval_ms": 20, **settings}
    plane = DataPlane.start(
        Settings(**given),
        released=lambda model, version: told["released"].append((model, version, threading.current_thread().name)),
        control=ask,
        log_told=told["log"].append,
    )
    try:
        if changes:
            plane.apply(changes)
        yield Running(plane, told["released"], told["log"], told["asked"])
    finally:
        plane.drain(5000)


def logged_rows(root: Path) -> list[dict[str, Any]]:
    """All rows of the log below `root`, by version, request and row."""
    with connect(root) as connection:
        found: list[dict[str, Any]] = (
            connection.sql("SELECT * FROM log ORDER BY version, request_id, row").to_arrow_table().to_pylist()
        )
    return found


def log_all(rate: float = 1.0) -> SetLog:
    return SetLog(model=MODEL, sampling_rate=rate)


def grpc_call(address: str, path: str, request: Any, reply: str, timeout: float = 20.0) -> Any:
    """A unary call; `reply` is the full name of the answer's message."""
    with grpc.insecure_channel(address) as channel:
        method: Callable[..., Any] = channel.unary_unary(
            path,
            request_serializer=lambda sent: sent.SerializeToString(),
            response_deserializer=message(reply).FromString,
        )
        return method(request, timeout=timeout)


def raw_predict(address: str, body: str) -> Reply:
    """A predict with a body that is sent as it is."""
    return call(address, "POST", f"/v1/models/{MODEL}:predict", body.encode())


def parse(reply: Reply) -> Any:
    return json.loads(reply.body)
