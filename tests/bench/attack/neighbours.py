"""What one model's trouble does to another's requests: mass time-outs, and a lone request beside a flood."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import grpc
import numpy as np
from tests.bench.attack.attacks import PREDICT
from tests.bench.attack.siege import asking, engine_with_models
from tests.bench.rows import Row
from tests.support.engine_process import EngineProcess

from tidegate_serving.contract.messages import message

REQUESTS = 16_000
DEADLINE_SECONDS = 3.0
LONE = 10_000


def measure() -> Sequence[Row]:
    """Both, on engines of their own."""
    with engine_with_models() as engine:
        late = _mass_time_out(engine)
    with engine_with_models() as engine:
        alone, beside = _lone(engine, None), _lone(engine, threading.Event())
    return [
        Row(
            f"{REQUESTS:,} requests that time out at once: latest answer after its deadline",
            late * 1e3,
            "ms",
            "at most 10",
            late <= 0.01,
        ),
        Row(
            f"p99 of {LONE:,} lone requests beside a flooded model, over quiet",
            beside / alone,
            "times",
            "at most 1.5",
            beside / alone <= 1.5,
        ),
    ]


def _request(model: str, rows: int) -> bytes:
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = model
    request.inputs["x"].dtype = 1
    request.inputs["x"].tensor_shape.dim.add(size=rows)
    request.inputs["x"].tensor_content = bytes(4 * rows)
    return bytes(request.SerializeToString())
