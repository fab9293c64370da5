"""Reads estimator files without running code that they bring along.

The sklearn platform asks; skops files may name only types that skops or `trusted_types` trusts, pickles are read only
with the operator's leave.
"""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import ModelFailed, PermissionRefused, words_of
from tidegate_serving.platforms.platform import library, missing_library
from tidegate_serving.platforms.sklearn.trusted_types import untrusted_types

SUFFIXES = (".skops", ".pkl", ".pickle", ".joblib")
# How much larger than its file an estimator was seen to be; compressed pickles do not say how large they are unpacked.
_SKOPS_TIMES, _PICKLE_TIMES, _COMPRESSED_TIMES = 4, 3, 12
_PICKLE_START = b"\x80"


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
            f"{path} is a pickle, which can run any code: save it with skops, or start the engine with --allow-pickle"
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
            "best_estimator_ alone), or save a pickle and start the engine with --allow-pickle"
        )
    try:
        return io.load(path, trusted=names)
    except Exception as error:
        raise ModelFailed(f"{path} cannot be loaded with this scikit-learn: {error}") from error


def _read_pickle(path: Path) -> Any:
    try:
        if path.suffix == ".joblib":
            import joblib  # type: ignore[import-untyped]

            return joblib.load(path)
        with path.open("rb") as file:
            return pickle.load(file)
    except ImportError as error:
        raise missing_library(str(error.name), "sklearn") from error
    except Exception as error:
        raise ModelFailed(f"{path} cannot be unpickled: {words_of(error)}") from error
