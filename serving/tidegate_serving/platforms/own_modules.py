"""Modules that an MLflow model brings along in a code folder, seen by that model alone.

MLflow puts such folders on the path, where the first version of a module that anybody imported is everybody's: a new
version of a model would run the old one's code. Pyfunc loads and asks models that bring code inside of this.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType, TracebackType

_lock = threading.RLock()  # what is imported is the whole process's: one such model runs at a time


class OwnModules:
    """A context in which the folder's modules are the ones that `import` finds. No byte code is written meanwhile: it
    would be a file that the version's manifest does not list.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names = frozenset(path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir())
        self._own: dict[str, ModuleType] = {}
        self._hidden: dict[str, ModuleType] = {}
        self._wrote = sys.dont_write_bytecode

    def __enter__(self) -> None:
        _lock.acquire()
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
        _lock.release()

    def _taken_out(self) -> dict[str, ModuleType]:
        """Whatever has one of the folder's names, no longer imported."""
        if not self._names & sys.modules.keys():
            return {}
        names = [name for name in list(sys.modules) if name.partition(".")[0] in self._names]
        return {name: sys.modules.pop(name) for name in names}
