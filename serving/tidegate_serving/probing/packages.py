"""What a version needs that is not here where it is tried: a package that is not installed, or a module of its own that
nobody published with it.

A module is surely a package where the version's own requirements or those of what is installed (with all their extras)
name it. Of any other both cures are told: no register is asked, and nobody can tell them apart from here.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_EXTRAS = {
    "onnxruntime": "onnx",
    "skops": "sklearn",
    **{name: name for name in ("lightgbm", "mlflow", "tensorflow", "torch", "xgboost")},
}
_DISTRIBUTIONS = {
    "Levenshtein": "levenshtein",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "hummingbird": "hummingbird-ml",
    "imblearn": "imbalanced-learn",
    "pywt": "pywavelets",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "skopt": "scikit-optimize",
    "sksurv": "scikit-survival",
    "surprise": "scikit-surprise",
    "umap": "umap-learn",
    "yaml": "pyyaml",
}
"""Modules whose package has another name."""
_REQUIREMENTS = ("requirements.txt", "conda.yaml", "python_env.yaml", "pyproject.toml")
_ITEMS = re.compile(r"[\n\[,]")
"""What parts requirements, also where all are in one line."""
_COMMENT = re.compile(r"(?m)(?:^|\s)#.*$")
_NAME = re.compile(r"^[\s\-\"']*([A-Za-z0-9][A-Za-z0-9._-]*)(?=$|[\s\[(<>=!~;@,\"'#])")
"""A package's name, and not the scheme of an address."""


def lacking(error: BaseException, directory: Path) -> str:
    """What to install or to publish, in words, where an error came of a module that is not here; empty where it did
    not."""
    module = _missing(error, directory)
    if not module:
        return ""
    if _is_package(module, directory):
        return _cure(module)
    publish = (
        f"publish it with the version (a Python model has it beside itself and writes `from . import {module}`; "
        "MLflow takes code_paths)"
    )
    absent = _not_installed(directory)
    if absent:
        return (
            f"needs {module}, and of what its requirements.txt names this is not installed where it is judged: run "
            f"`pip install {' '.join(absent)}` there, and where it is to serve; if {module} is yours, {publish}"
        )
    return (
        f"needs the module {module}, which is neither among its files nor installed where it is judged: if it is "
        f"yours, {publish}; if it is a package, run `pip install {module}` there, and where it is to serve"
    )


def _missing(error: BaseException, directory: Path) -> str:
    """The module without which an error came, unless it is here or among the version's own files, in `directory`."""
    cause: BaseException | None = error
    seen = set[int]()
    while cause is not None and id(cause) not in seen:  # a model's own errors may be each other's cause
        seen.add(id(cause))
        if isinstance(cause, ModuleNotFoundError) and isinstance(cause.name, str) and cause.name:
            module = cause.name.partition(".")[0]
            return "" if _is_here(module) or _is_own(module, directory) else module
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return ""


def _is_package(module: str, directory: Path) -> bool:
    package = _plain(_DISTRIBUTIONS.get(module, module))
    return (
        module in _EXTRAS
        or module in _DISTRIBUTIONS
        or package in _required_by_version(directory)
        or package in _required_by_installed()
    )


def _required_by_version(directory: Path) -> set[str]:
    texts = [_COMMENT.sub("", text) for name in _REQUIREMENTS for text in _texts(directory, name)]
    items = [item for text in texts for item in _ITEMS.split(text)]
    return {_plain(found[1]) for item in items if (found := _NAME.match(item))}


def _not_installed(directory: Path) -> list[str]:
    """Of the packages that its requirements.txt names, one of which may have the module under a name of its own."""
    lines = [line.strip() for text in _texts(directory, "requirements.txt") for line in text.splitlines()]
    names = {_plain(found[1]) for line in lines if not line.startswith("-") and (found := _NAME.match(line))}
    return sorted(names - _installed())


def _texts(directory: Path, name: str) -> list[str]:
    return [path.read_text(encoding="utf-8", errors="replace") for path in directory.rglob(name) if path.is_file()]


@cache
def _installed() -> frozenset[str]:
    return frozenset(_plain(one.name) for one in importlib.metadata.distributions() if one.name)


@cache
def _required_by_installed() -> frozenset[str]:
    lines = [line for one in importlib.metadata.distributions() for line in one.requires or ()]
    return frozenset(_plain(found[1]) for line in lines if (found := _NAME.match(line)))


def _plain(name: str) -> str:
    return re.sub(r"[._-]+", "-", name).lower()


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
    return f"{needs} `pip install {_DISTRIBUTIONS.get(package, package)}` there, and where it is to serve"
