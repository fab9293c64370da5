"""Which package a version needs that is not installed where it is tried: that is no fault of the version."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_EXTRAS = {
    "onnxruntime": "onnx",
    "skops": "sklearn",
    **{name: name for name in ("lightgbm", "mlflow", "tensorflow", "torch", "xgboost")},
}
_DISTRIBUTIONS = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Modules whose package has another name."""


def lacking(error: BaseException, directory: Path) -> str:
    """What to install, in words, where an error came of a package that is not here; empty where it did not, and where
    the module would be one of the version's own, in `directory`."""
    cause: BaseException | None = error
    seen = set[int]()
    while cause is not None and id(cause) not in seen:  # a model's own errors may be each other's cause
        seen.add(id(cause))
        if isinstance(cause, ModuleNotFoundError) and isinstance(cause.name, str) and cause.name:
            package = cause.name.partition(".")[0]
            return "" if _is_here(package) or _is_own(package, directory) else _cure(package)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return ""


def _is_here(package: str) -> bool:
    """Whether it is installed, and lacks a part alone; so is a version's own folder, which is a package."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return package.startswith("tidegate_version_") or find_spec(package) is not None


def _is_own(package: str, directory: Path) -> bool:
    return any(
        (path.name == package and path.is_dir()) or path.name == f"{package}.py" for path in directory.rglob("*")
    )


def _cure(package: str) -> str:
    extra = _EXTRAS.get(package)
    needs = f"needs {package}, which is not installed where it is judged: run"
    if extra is not None:
        return f"{needs} `pip install 'tidegate[{extra}]'` there"
    return (
        f"{needs} `pip install {_DISTRIBUTIONS.get(package, package)}` there, and where it is to serve, or publish the "
        "version with it where it is a module of its own"
    )
