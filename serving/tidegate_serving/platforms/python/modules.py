"""Imports a version's Python files under a package name of the version's own, and leaves no byte code behind.

Byte code written into a version directory would be a file that its manifest does not list; the python platform
imports and forgets modules here.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import itertools
import sys
import types
from pathlib import Path

from tidegate_serving.contract.errors import ModelFailed, words_of
from tidegate_serving.contract.servable import ServableId

_PACKAGE = "tidegate_version_"
_numbers = itertools.count(1)


class _SourceWithoutCache(importlib.machinery.SourceFileLoader):
    """Reads .py files and keeps the byte code to itself."""

    def set_data(self, path: str, data: object, *, _mode: int = 0o666) -> None:
        """Byte code is not written."""


def import_file(path: Path, id: ServableId) -> tuple[str, types.ModuleType]:
    """The package's name and the module of a file; ModelFailed, with the cause, when it cannot be imported."""
    package_name = f"{_PACKAGE}{next(_numbers)}"
    package = types.ModuleType(package_name)
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
        forget_modules(package_name)
        if isinstance(error, ModuleNotFoundError) and _lies_beside(path, str(error.name)):
            raise ModelFailed(
                f"{path} of {id} imports {error.name!r}, which lies beside it: write `from . import {error.name}`, as "
                "each version's files are a package of their own"
            ) from error
        raise ModelFailed(f"{path} of {id} cannot be imported: {words_of(error)}") from error


def _lies_beside(path: Path, name: str) -> bool:
    return (path.parent / f"{name}.py").is_file() or (path.parent / name).is_dir()


def forget_modules(package_name: str) -> None:
    """Takes a package and all its modules out of `sys.modules`."""
    for name in [name for name in sys.modules if name == package_name or name.startswith(package_name + ".")]:
        del sys.modules[name]
