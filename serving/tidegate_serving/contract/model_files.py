"""Which platform a model is for, by the names of its files."""

from __future__ import annotations

from pathlib import Path

_MLFLOW_FILE, _SAVED_MODEL_FILES, _STAGES_FILE = "MLmodel", ("saved_model.pb", "saved_model.pbtxt"), "stages.json"
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
    if _STAGES_FILE in names:
        return "stages"
    if _MLFLOW_FILE in names:
        return "mlflow"
    if any(name in names for name in _SAVED_MODEL_FILES):
        return "tensorflow"
    found = {_SUFFIXES[suffix] for name in names if (suffix := Path(name).suffix) in _SUFFIXES}
    return found.pop() if len(found) == 1 else None


def recognisable() -> str:
    """The platforms that can be recognised, for messages."""
    return ", ".join(sorted({"mlflow", "stages", "tensorflow", *_SUFFIXES.values()}))
