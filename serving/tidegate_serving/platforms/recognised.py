"""Which platform a model's files are for, as their names tell, where nobody said.

Embedding programs and `tidegate judge` ask with a file or a directory; None means that they have to be told.
"""

from __future__ import annotations

from pathlib import Path

_MLFLOW = "MLmodel"
_SAVED_MODEL = "saved_model.pb"
_SUFFIXES = {
    ".lgb": "lightgbm",
    ".lightgbm": "lightgbm",
    ".onnx": "onnx",
    ".parquet": "table",
    ".pt": "torch",
    ".pt2": "torch",
    ".skops": "sklearn",
    ".ubj": "xgboost",
}


def recognised_platform(model: Path) -> str | None:
    """The platform of a model's file or directory; None where no file, or more than one kind of them, tells it."""
    names = [model.name] if model.is_file() else [path.name for path in model.iterdir()]
    if _MLFLOW in names:
        return "mlflow"
    found = {_SUFFIXES[suffix] for name in names if (suffix := Path(name).suffix) in _SUFFIXES}
    found |= {"tensorflow"} if _SAVED_MODEL in names else set()
    return found.pop() if len(found) == 1 else None


def recognisable() -> str:
    """The platforms that can be recognised, for messages."""
    return ", ".join(sorted({"mlflow", "tensorflow", *_SUFFIXES.values()}))
