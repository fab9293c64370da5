"""A callable whose tensors have no common batch, predicted in process and found in the inference log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.support.eventually import eventually

from tidegate import Engine
from tidegate_serving.inference_log.reader import connect


def test_each_request_keeps_its_shapes_and_is_one_row_of_the_log(tmp_path: Path) -> None:
    shapes = {"m": ("float32", (2, 2)), "k": ("float32", ())}
    with Engine(log=tmp_path) as engine:
        engine.serve("scale", lambda m, k: {"y": m * k, "sum": m.sum()}, inputs=shapes, outputs=_OUT)
        found = engine.predict("scale", {"m": np.eye(2, dtype="f4"), "k": np.float32(3)})
        assert found["y"].tolist() == [[3, 0], [0, 3]]
        assert (found["sum"].shape, found["sum"].tolist()) == ((), 2.0)
        eventually(lambda: list(tmp_path.glob("model=scale/*/*/*.parquet")))
    rows = connect(tmp_path).sql('SELECT "in.m", "in.k", "out.sum" FROM log').fetchall()
    assert rows == [([[1.0, 0.0], [0.0, 1.0]], 3.0, 2.0)]


_OUT = {"y": ("float32", (2, 2)), "sum": ("float32", ())}
