"""MLflow's pyfunc as a servable, which gets tables or tensors as the model's signature says and answers by name.

It serves models that no native platform takes. They may run any code when they load.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import ModelFailed, PermissionRefused
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.arrays import as_text, text_column
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.mlflow.mlmodel import MlModel
from tidegate_serving.platforms.platform import ALLOWING_PICKLES, IMPORTING, library

_importing = threading.RLock()  # what is imported is the whole process's: one model with own code runs at a time


def load_pyfunc(model: MlModel, manifest: Manifest, *, allowed: bool) -> Servable:
    """The model, loaded by MLflow. PermissionRefused unless the engine's operator allows files that run code."""
    if not allowed:
        raise PermissionRefused(
            f"{model.root} is an MLflow pyfunc model, which can run any code: log it with a native flavour, or "
            f"{ALLOWING_PICKLES}"
        )
    with library("MLflow", "mlflow"):
        from mlflow import pyfunc
    _import_frameworks(model)
    own = CodeFolder(model.code) if model.code is not None else contextlib.nullcontext()
    try:
        with own:
            loaded = pyfunc.load_model(str(model.root))
    except Exception as error:
        raise ModelFailed(f"{model.root} cannot be loaded by MLflow: {words_of(error)}") from error
    return PyfuncServable(loaded, model, manifest, own)


def _import_frameworks(model: MlModel) -> None:
    """What MLflow would import in the middle of loading."""
    with IMPORTING:
        for flavour in model.flavours:
            if flavour.isidentifier() and importlib.util.find_spec(flavour) is not None:
                importlib.import_module(flavour)


class PyfuncServable:
    """Calls MLflow's `predict` once per batch; models that bring modules along do not run at the same time."""

    def __init__(self, loaded: Any, model: MlModel, manifest: Manifest, own: AbstractContextManager[None]) -> None:
        self._loaded = loaded
        self._own = own
        self._signatures = manifest.signatures
        self._dropped = manifest.event_time
        told = set(model.signature().input_names) if model.has_signature else set()
        if self._dropped in told:
            self._dropped = None
        self._as_table = model.takes_columns or not model.has_signature
        self._named = model.is_named
        self._optional = frozenset(model.optional_texts)
        self._binary = frozenset(model.binary_columns)

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Outputs by name; a lone column or array takes the lone output's name."""
        given = {
            name: array if name in self._binary else as_text(name, array)
            for name, array in inputs.items()
            if name != self._dropped
        }
        with self._own:
            answer = self._loaded.predict(self._shaped(given))
        return _by_name(self._signatures[signature], answer)

    def close(self) -> None:
        """Frees the model."""
        self._loaded = None

    def _shaped(self, given: Mapping[str, Array]) -> Any:
        if self._as_table:
            import pandas

            return pandas.DataFrame({name: self._column(name, array) for name, array in given.items()})
        return dict(given) if self._named else next(iter(given.values()))

    def _column(self, name: str, array: Array) -> Any:
        is_text = array.dtype.kind == "O" and name not in self._binary
        return text_column(array, empty_is_missing=name in self._optional) if is_text else array


def _by_name(signature: Signature, answer: Any) -> dict[str, Any]:
    names = [spec.name for spec in signature.outputs]
    if hasattr(answer, "columns") and hasattr(answer, "to_numpy"):
        columns = {str(name): answer[name].to_numpy() for name in answer.columns}
        lone = len(names) == 1 and names[0] not in columns
        return {names[0]: answer.to_numpy()[:, 0] if len(columns) == 1 else answer.to_numpy()} if lone else columns
    if isinstance(answer, list) and answer and all(isinstance(row, Mapping) for row in answer):
        return {name: [row[name] for row in answer] for name in names if all(name in row for row in answer)}
    if isinstance(answer, Mapping):
        return {str(name): value for name, value in answer.items()}
    if len(names) != 1:
        raise ModelFailed(f"the model answered with {type(answer).__name__}, its signature says {', '.join(names)}")
    return {names[0]: np.asarray(answer)}


class CodeFolder:
    """A context in which `import` finds the modules of a model's own code folder, seen by that model alone.

    MLflow puts such folders on the path, where the first import of a module counts for the whole process: a new version
    of a model would run the old one's code. No byte code is written meanwhile: it would be a file that the
    version's manifest does not list.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names = frozenset(path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir())
        self._own: dict[str, ModuleType] = {}
        self._hidden: dict[str, ModuleType] = {}
        self._wrote = sys.dont_write_bytecode

    def __enter__(self) -> None:
        _importing.acquire()
        self._hidden = self._taken_out()
        sys.modules.update(self._own)
        sys.path.insert(0, self._folder)
        self._wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.dont_write_bytecode = self._wrote
        sys.path[:] = [entry for entry in sys.path if not entry.startswith(self._folder)]
        self._own = self._taken_out()
        sys.modules.update(self._hidden)
        _importing.release()

    def _taken_out(self) -> dict[str, ModuleType]:
        """Whatever has one of the folder's names, no longer imported."""
        if not self._names & sys.modules.keys():
            return {}
        names = [name for name in list(sys.modules) if name.partition(".")[0] in self._names]
        return {name: sys.modules.pop(name) for name in names}
