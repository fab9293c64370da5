"""Models that are a Python class: `predict(inputs)` with arrays by name in and out, in a file of the version.

For a streaming signature the method is a generator: it yields outputs by name, once for each message. A method whose
parameter is annotated with a pydantic model, or a list of one, takes and returns such documents instead of arrays.
A method of a signature with sequences takes a second argument, a `Sequence` with the state that it keeps of that one.

Metadata: `python.file` (default: the only .py file), `python.class` (default `Model`), `python.methods` (JSON of
signature name to method name, default `predict`), `python.sequences` (how many sequences each signature may have under
way, default 10000), `python.sequence_idle_seconds` (how long one without a request is kept, default 60).
A class whose constructor needs an argument gets the folder. The file's own folder is a package, so `from . import
helper` works; inputs are as in the signature, without the manifest's event time unless the class sets
`uses_event_time = True`. A class with a method `device_bytes()` tells with it what it holds of GPUs,
`{"gpu:0": 2_000_000_000}`, which then counts against the engine's `device_limits_bytes`.
"""

from __future__ import annotations

import importlib.machinery
import inspect
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Set
from functools import partial
from importlib.util import find_spec
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.documents import documents_of
from tidegate_serving.platforms.loader import Answer, Servable
from tidegate_serving.platforms.memory_need import RAM
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions, model_file
from tidegate_serving.platforms.python.sequences import SequenceLimits, Sequences

_PACKAGE = "tidegate_version_"
_SIGNATURE = (
    '{"inputs": [{"name": "x", "dtype": "float32", "shape": [-1]}], '
    '"outputs": [{"name": "y", "dtype": "float32", "shape": [-1]}]}'
)
_numbers = itertools.count(1)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class PythonPlatform:
    """Loads a class from a module file."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """The signature of a class whose `predict` takes documents: its file is imported. Unsupported for arrays."""
        path = model_file(manifest, directory, "python.file", (".py",))
        package, module = _import_file(path, manifest.id)
        try:
            method = getattr(_class(module, path, manifest), "predict", None)
            documents = documents_of(method) if callable(method) else None
            if documents is None:
                raise Unsupported(
                    "a signature cannot be read off a model of platform 'python': write one as JSON, such as "
                    f"{_SIGNATURE}, or annotate the parameter of `predict` in {path.name} with a pydantic model or a "
                    "list of one"
                )
            return ModelDescription({SERVING_DEFAULT: documents.signature()})
        finally:
            _forget_modules(package)

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """Imports the file under a name of its own, so that versions never share modules, and makes the object."""
        path = model_file(manifest, directory, "python.file", (".py",))
        if any(signature.schema for signature in manifest.signatures.values()) and find_spec("pydantic") is None:
            raise Unsupported(
                f"{manifest.id} takes documents that pydantic checks, which is not installed where it runs: install it "
                "there with `pip install pydantic`"
            )
        package, module = _import_file(path, manifest.id)
        try:
            return _made(package, module, path, (directory, manifest))
        except BaseException:
            _forget_modules(package)
            raise


def _made(package: str, module: ModuleType, path: Path, version: tuple[Path, Manifest]) -> Servable:
    directory, manifest = version
    kind = _class(module, path, manifest)
    model = kind(directory) if _takes_folder(kind, manifest) else kind()
    dropped = () if getattr(kind, "uses_event_time", False) else (manifest.event_time,)
    held = _device_bytes(model, manifest)
    streaming = frozenset(name for name, signature in manifest.signatures.items() if signature.streaming)
    return PythonServable(package, _methods(manifest, model), streaming, tuple(name for name in dropped if name), held)


def _device_bytes(model: Any, manifest: Manifest) -> dict[str, int]:
    tells = getattr(model, "device_bytes", None)
    told = tells() if callable(tells) else {}
    if not isinstance(told, Mapping) or not all(isinstance(n, str) and isinstance(told[n], Integral) for n in told):
        raise InvalidInput(
            f"device_bytes() of {manifest.id} gave {repr(told)[:100]}: return whole numbers of bytes by device, such "
            'as {"gpu:0": 2_000_000_000}'
        )
    return {name: int(count) for name, count in told.items() if name != RAM}


def _class(module: ModuleType, path: Path, manifest: Manifest) -> type:
    name = manifest.metadata.get("python.class", "Model")
    kind = getattr(module, name, None)
    if not isinstance(kind, type):
        raise InvalidInput(f"{path} has no class {name!r}: define it, or name another in metadata 'python.class'")
    return kind


def _takes_folder(kind: type, manifest: Manifest) -> bool:
    try:
        parameters = inspect.signature(kind).parameters.values()
    except ValueError:  # a class made in C says nothing of its constructor
        return False
    needed = [one.name for one in parameters if one.default is one.empty and one.kind in _POSITIONAL]
    if len(needed) > 1:
        raise InvalidInput(
            f"{kind.__name__} of {manifest.id} needs {', '.join(needed)} to be made: give all but one a default; "
            "that one gets the version's folder"
        )
    return bool(needed)


def _methods(manifest: Manifest, model: Any) -> dict[str, Any]:
    text = manifest.metadata.get("python.methods", "{}")
    try:
        told = dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"metadata 'python.methods' of {manifest.id} is {text!r}: use JSON of strings") from error
    methods = {}
    for signature in manifest.signatures:
        name = str(told.get(signature, "predict"))
        method = getattr(model, name, None)
        if not callable(method):
            raise InvalidInput(
                f"{type(model).__name__} of {manifest.id} has no method {name!r} for {signature!r}: define it, or name "
                "another in metadata 'python.methods'"
            )
        if inspect.isgeneratorfunction(method) and not manifest.signatures[signature].streaming:
            raise InvalidInput(
                f"method {name!r} of {manifest.id} is a generator, but signature {signature!r} answers once: give it "
                '"streaming": true and the first axis "free", or have the method return a dict'
            )
        methods[signature] = _as_called(manifest, signature, method)
    return methods


def _as_called(manifest: Manifest, signature: str, method: Any) -> Any:
    """A method that takes arrays by name alone."""
    if manifest.signatures[signature].sequences:
        return partial(Sequences(manifest.id, _sequence_limits(manifest)).ask, method)
    return method if manifest.signatures[signature].schema is None else _of_documents(manifest, method)


def _sequence_limits(manifest: Manifest) -> SequenceLimits:
    default = SequenceLimits()
    seconds = _number(manifest, "python.sequence_idle_seconds", default.idle_seconds)
    return SequenceLimits(seconds, int(_number(manifest, "python.sequences", default.most)))


def _number(manifest: Manifest, key: str, default: float) -> float:
    text = manifest.metadata.get(key, str(default))
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise InvalidInput(f"metadata {key!r} of {manifest.id} is {text!r}: use a number above 0")
    return number


def _of_documents(manifest: Manifest, method: Any) -> Any:
    documents = documents_of(method)
    if documents is None:
        raise InvalidInput(
            f"method {method.__name__!r} of {manifest.id} has a signature of documents, but its parameter is annotated "
            "with no pydantic model: annotate it with one, or with a list of one, and publish the version again"
        )
    return documents.answer


class PythonServable:
    """Calls the user's object; its package leaves `sys.modules` when it closes."""

    def __init__(
        self,
        package: str,
        methods: Mapping[str, Any],
        streaming: Set[str],
        dropped: tuple[str, ...],
        held: Mapping[str, int],
    ) -> None:
        self._package = package
        self._methods = methods
        self._streaming = streaming
        self._dropped = dropped
        self._held = held

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any] | Answer | Iterator[Any]:
        """What the object's method returns: a mapping, an `Answer` with errors by row, or an iterator of either; of a
        table with named columns, such as pandas' and polars', those columns."""
        given = dict(inputs)
        for name in self._dropped:
            given.pop(name, None)
        result = self._methods[signature](given)
        if type(result) is dict or isinstance(result, Mapping | Answer):
            return result
        if isinstance(result, Iterator):
            return self._messages(signature, result)
        if hasattr(result, "columns") and hasattr(result, "to_numpy"):
            return {str(name): result[name].to_numpy() for name in result.columns}
        raise ModelFailed(
            f"the model returned {type(result).__name__}: return a dict of arrays by output name, or a DataFrame with "
            "a column for each output"
        )

    def _messages(self, signature: str, result: Iterator[Any]) -> Iterator[Any]:
        if signature in self._streaming:
            return result
        raise ModelFailed(
            f"the model returned {type(result).__name__}, but signature {signature!r} answers once: return a dict of "
            'arrays by output name, or give the signature "streaming": true and the first axis "free"'
        )

    def device_bytes(self) -> Mapping[str, int]:
        """What its object said at load that it holds of GPUs."""
        return self._held

    def close(self) -> None:
        """Forgets the object and its modules."""
        self._methods = {}
        _forget_modules(self._package)


class _SourceWithoutCache(importlib.machinery.SourceFileLoader):
    """Reads .py files and writes no byte code, which would be a file that the version's manifest does not list."""

    def set_data(self, path: str, data: object, *, _mode: int = 0o666) -> None:
        """Byte code is not written."""


def _import_file(path: Path, id: ServableId) -> tuple[str, ModuleType]:
    """The package's name and the module of a file; ModelFailed, with the cause, when it cannot be imported."""
    package_name = f"{_PACKAGE}{next(_numbers)}"
    package = ModuleType(package_name)
    package.__path__ = [str(path.parent)]
    sys.modules[package_name] = package
    for folder in (path.parent, *(child for child in path.parent.rglob("*") if child.is_dir())):
        sys.path_importer_cache[str(folder)] = importlib.machinery.FileFinder(
            str(folder),
            (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
            (_SourceWithoutCache, importlib.machinery.SOURCE_SUFFIXES),
        )
    try:
        return package_name, importlib.import_module(f"{package_name}.{path.stem}")
    except Exception as error:
        _forget_modules(package_name)
        if isinstance(error, ModuleNotFoundError) and _lies_beside(path, str(error.name)):
            raise ModelFailed(
                f"{path} of {id} imports {error.name!r}, which lies beside it: write `from . import {error.name}`, as "
                "each version's files are a package of their own"
            ) from error
        raise ModelFailed(f"{path} of {id} cannot be imported: {words_of(error)}") from error


def _lies_beside(path: Path, name: str) -> bool:
    return (path.parent / f"{name}.py").is_file() or (path.parent / name).is_dir()


def _forget_modules(package_name: str) -> None:
    """Takes a package and all its modules out of `sys.modules`."""
    for name in [name for name in sys.modules if name == package_name or name.startswith(package_name + ".")]:
        del sys.modules[name]
