"""Reads estimator files without running code that they bring along.

skops files may name only types that skops or this module trusts: what estimators are made of, and nothing that can run
code of somebody's choice. Pickles are read only where the engine's operator allows them.
"""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from tidegate_serving.contract.errors import ModelFailed, PermissionRefused
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.platform import ALLOWING_PICKLES, library, missing_library

SUFFIXES = (".skops", ".pkl", ".pickle", ".joblib")
# How much larger than its file an estimator was seen to be; compressed pickles do not say how large they are unpacked.
_SKOPS_TIMES, _PICKLE_TIMES, _COMPRESSED_TIMES = 4, 3, 12
_PICKLE_START = b"\x80"
# scipy.stats' distributions are left out on purpose: their state is source code that they execute when they are read.
_TRUSTED = frozenset(
    {
        "collections.OrderedDict",
        "functools.partial",
        "lightgbm.basic.Booster",
        "numpy.dtype",
        "numpy.ndarray",
        "numpy.number",
        "numpy.random.RandomState",
        "numpy.random.mtrand.RandomState",
        "scipy._lib.array_api_compat.numpy._aliases.asarray",
        "scipy.interpolate._bsplines.BSpline",
        "scipy.sparse._csc.csc_array",
        "scipy.sparse._csc.csc_matrix",
        "scipy.sparse._csr.csr_array",
        "scipy.sparse._csr.csr_matrix",
        "sklearn.cluster._kmeans._kmeans_single_elkan",
        "sklearn.cluster._kmeans._kmeans_single_lloyd",
        "sklearn.utils.validation.check_array",
        "xgboost.core.Booster",
        *(f"numpy.{name}" for name in ("clip", "max", "mean", "median", "min", "nan_to_num", "round", "sum")),
        *(f"lightgbm.sklearn.LGBM{kind}" for kind in ("Classifier", "Ranker", "Regressor")),
        *(f"xgboost.sklearn.XGB{kind}" for kind in ("Classifier", "Ranker", "Regressor")),
        *(f"xgboost.sklearn.XGBRF{kind}" for kind in ("Classifier", "Regressor")),
    }
)
_FUNCTIONS_OF = ("sklearn.feature_selection.", "sklearn.metrics.")


def estimator_bytes(path: Path) -> int:
    """The memory that an estimator takes at most, in bytes. Of a file that is none, loading says what is wrong."""
    if path.suffix == ".skops" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            return _SKOPS_TIMES * sum(entry.file_size for entry in file.infolist())
    with path.open("rb") as file:
        plain = file.read(1) == _PICKLE_START
    return (_PICKLE_TIMES if plain else _COMPRESSED_TIMES) * path.stat().st_size


def read_estimator(path: Path, *, allow_pickle: bool) -> Any:
    """The estimator in a file. PermissionRefused for types or formats that are not allowed, naming them."""
    if path.suffix == ".skops":
        return _read_skops(path)
    if not allow_pickle:
        raise PermissionRefused(
            f"{path} is a pickle, which can run any code: save it with skops, or {ALLOWING_PICKLES}"
        )
    return _read_pickle(path)


def _read_skops(path: Path) -> Any:
    with library("scikit-learn and skops", "sklearn"):
        import sklearn  # noqa: F401
        from skops import io
    try:
        names = io.get_untrusted_types(file=path)
        refused = untrusted_types(names)
    except Exception as error:
        raise ModelFailed(f"{path} is no skops file: {words_of(error)}") from error
    if refused:
        raise PermissionRefused(
            f"{path} holds {', '.join(refused)}, which may run any code: train without it (of a search, save "
            f"best_estimator_ alone), or save a pickle and {ALLOWING_PICKLES}"
        )
    try:
        return io.load(path, trusted=names)
    except Exception as error:
        raise ModelFailed(f"{path} cannot be loaded with this scikit-learn: {error}") from error


def _read_pickle(path: Path) -> Any:
    """Whatever joblib or pickle wrote, under either's suffix: joblib reads both."""
    try:
        import joblib

        return joblib.load(path)
    except ImportError as error:
        raise missing_library(str(error.name), "sklearn") from error
    except Exception as error:
        raise ModelFailed(f"{path} cannot be unpickled: {words_of(error)}") from error


def untrusted_types(names: list[str]) -> list[str]:
    """Those of skops' untrusted type names that are refused: neither in `_TRUSTED` nor defined by scikit-learn as a
    class, or as a function that scores or compares.
    """
    return [name for name in names if name not in _TRUSTED and not _is_of_sklearn(name)]


def _is_of_sklearn(name: str) -> bool:
    if not name.startswith("sklearn."):
        return False
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    if isinstance(found, FunctionType | BuiltinFunctionType):
        return str(found.__module__).startswith(_FUNCTIONS_OF)
    return isinstance(found, type) and found.__module__.startswith("sklearn.")
