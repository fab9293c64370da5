"""The models that are attacked: a small one, one of images, one that takes examples, one that is slow, one that hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate_serving.contract.manifest import Manifest, describe_files
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec

PIXELS = 150528
DOUBLE = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] * 2}
"""
SUM = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"].sum(axis=1)}
"""
SLOW = """
import time

class Model:
    def predict(self, inputs):
        time.sleep(0.25)
        return {"y": inputs["x"] * 2}
"""
HANGS = """
import threading

class Model:
    def predict(self, inputs):
        if (inputs["x"] < 0).any():
            threading.Event().wait()
        return {"y": inputs["x"] * 2}
"""
ROW = (-1,)


def publish_models(repository: Path) -> None:
    """Version 1 of each of them."""
    _publish(repository, "small", DOUBLE, ROW, 1.0)
    _publish(repository, "image", SUM, (-1, PIXELS), [0.0] * PIXELS)
    _publish(repository, "slow", SLOW, ROW, 1.0)
    _publish(repository, "hangs", HANGS, ROW, 1.0)


def _publish(repository: Path, name: str, source: str, shape: tuple[int, ...], example: Any) -> None:
    directory = version_directory(repository, ServableId(name, 1))
    directory.mkdir(parents=True)
    (directory / "model.py").write_text(source)
    Manifest(
        id=ServableId(name, 1),
        platform="python",
        signatures={SERVING_DEFAULT: Signature((TensorSpec("x", "float32", shape),), (TensorSpec("y", "float32", ROW),))},
        files=describe_files(directory),
        created_at="2013-01-01T00:00:00Z",
        example={"x": example},
        metadata={"python.file": "model.py", "python.class": "Model"},
    ).write(directory)
