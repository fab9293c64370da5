"""Which platform a model is for, by the names of its files; where many programs use a name, by how the file begins."""

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
_OF_MANY_PROGRAMS = {".json", ".model", ".txt", ".xgb"}
_BEGINNINGS = {
    b'{"learner":': "xgboost",
    b"{L\0\0\0\0\0\0\0\x07learner": "xgboost",
    b"tree\nversion=": "lightgbm",
    b"tree\r\nversion=": "lightgbm",
}


def recognised_platform(model: Path) -> str | None:
    """The platform of a model's file or directory; None where no file, or more than one kind of them, tells it."""
    paths = [model] if model.is_file() else list(model.iterdir())
    names = [path.name for path in paths]
    if _STAGES_FILE in names:
        return "stages"
    if _MLFLOW_FILE in names:
        return "mlflow"
    if any(name in names for name in _SAVED_MODEL_FILES):
        return "tensorflow"
    found = {told for path in paths if (told := _SUFFIXES.get(path.suffix) or _by_beginning(path)) is not None}
    return found.pop() if len(found) == 1 else None


def _by_beginning(path: Path) -> str | None:
    """The library whose `save_model` wrote a file of a name that says little."""
    if path.suffix not in _OF_MANY_PROGRAMS or not path.is_file():
        return None
    with path.open("rb") as file:
        begins = file.read(max(map(len, _BEGINNINGS)))
    return next((platform for beginning, platform in _BEGINNINGS.items() if begins.startswith(beginning)), None)


def recognisable() -> str:
    """The platforms that can be recognised, for messages."""
    return ", ".join(sorted({"mlflow", "stages", "tensorflow", *_SUFFIXES.values()}))
