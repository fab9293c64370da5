"""The models of an engine under attack: a small one that good clients ask, and others that attackers ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec

PIXELS = 150528
TABLES = 1000
DOUBLE = """
class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] * 2}
"""
SUM = """
import time

class Model:
    def predict(self, inputs):
        time.sleep(0.5)
        return {"y": inputs["x"].sum(axis=1)}
"""
COUNT = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"scores": np.array([[len(one)] for one in inputs["inputs"]], "f4")}
"""
LARGE = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": np.repeat(inputs["x"][:, None], 100_000, axis=1)}
"""
SLOW = """
import time

class Model:
    def predict(self, inputs):
        time.sleep(0.075 * len(inputs["x"]))
        return {"y": inputs["x"] * 2}
"""
HANGS = """
import ctypes, hashlib, threading

def compute():
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)  # without Python's lock

class Model:
    def predict(self, inputs):
        if (inputs["x"] == -1).any():
            threading.Event().wait()
        while (inputs["x"] == -2).any():
            pass
        if (inputs["x"] == -3).any():
            ctypes.PyDLL(None).sleep(1_000_000)
        if (inputs["x"] == -4).any():
            for _ in range(200):
                threading.Thread(target=compute, daemon=True).start()
        return {"y": inputs["x"] * 2}
"""
ENDLESS = """
class Model:
    def predict(self, inputs):
        for number in range(int(inputs["n"])):
            yield {"i": number}
"""
RAISES = """
class Model:
    def predict(self, inputs):
        if (inputs["x"] < 0).any():
            raise ValueError("no number may be negative")
        return {"y": inputs["x"] * 2}
"""
ROW = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))
IMAGE = Signature((TensorSpec("x", "float32", (-1, PIXELS)),), (TensorSpec("y", "float32"),))
DEEP = Signature((TensorSpec("x", "float32", (-1, *(1,) * 252)),), (TensorSpec("y", "float32"),))
STREAM = Signature(
    (TensorSpec("n", "int64", ()),), (TensorSpec("i", "int64", ()),), first_axis=FirstAxis.FREE, streaming=True
)
ANSWER = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32", (-1, 100_000)),))
EXAMPLES = Signature(
    (TensorSpec("inputs", "string"),), (TensorSpec("scores", "float32", (-1, 1)),), "tensorflow/serving/classify"
)
MODELS: Mapping[str, Draft] = {
    "small": Draft(files={"model.py": DOUBLE}, signature=ROW),
    "m": Draft(files={"model.py": DOUBLE}, signature=ROW),
    "other": Draft(files={"model.py": DOUBLE}, signature=ROW),
    "image": Draft(files={"model.py": SUM}, signature=IMAGE, example={"x": [0.0] * PIXELS}),
    "examples": Draft(files={"model.py": COUNT}, signature=EXAMPLES, example={"inputs": "x"}),
    "large": Draft(files={"model.py": LARGE}, signature=ANSWER),
    "slow": Draft(files={"model.py": SLOW}, signature=ROW),
    "hangs": Draft(files={"model.py": HANGS}, signature=ROW),
    "endless": Draft(files={"model.py": ENDLESS}, signature=STREAM, example={"n": 1}),
    "raises": Draft(files={"model.py": RAISES}, signature=ROW),
}


def model_names(tables: int = 0) -> list[str]:
    """What `publish_models` publishes."""
    return [*MODELS, *(f"table-{number}" for number in range(tables))]


def publish_models(repository: Path, tables: int = 0) -> None:
    """Version 1 of each of them, and of so many tables."""
    for name, draft in MODELS.items():
        publish(repository, name, 1, draft)
    table = Signature((TensorSpec("key", "int64"),), (TensorSpec("value", "int64"),))
    rows: dict[str, Any] = {"files": {"table.csv": "key,value\n7,1\n"}, "signature": table, "example": {"key": 7}}
    for number in range(tables):
        publish(repository, f"table-{number}", 1, Draft(platform="table", **rows))
