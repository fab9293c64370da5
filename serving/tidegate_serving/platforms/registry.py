"""Which platforms there are: those built in, and those of installed packages.

A package adds a platform by an entry point of the group `tidegate.platforms`: a callable that takes `PlatformOptions`
and returns a `Platform`. A new built-in platform gets a folder beside this module and a line in `_BUILT_IN`.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import check_name
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.memory_need import RAM, estimate_by_files
from tidegate_serving.platforms.platform import (
    Discovers,
    Estimates,
    MayUseGpu,
    ModelDescription,
    Platform,
    PlatformOptions,
    WarmUpOptions,
)

GROUP = "tidegate.platforms"
_BUILT_IN = {
    "lightgbm": "tidegate_serving.platforms.boosted.lightgbm:lightgbm_platform",
    "mlflow": "tidegate_serving.platforms.mlflow.platform:MlflowPlatform",
    "onnx": "tidegate_serving.platforms.onnx.platform:OnnxPlatform",
    "python": "tidegate_serving.platforms.python.platform:PythonPlatform",
    "sklearn": "tidegate_serving.platforms.sklearn.platform:SklearnPlatform",
    "stages": "tidegate_serving.platforms.stages.platform:StagesPlatform",
    "table": "tidegate_serving.platforms.table.platform:TablePlatform",
    "tensorflow": "tidegate_serving.platforms.tensorflow.platform:TensorflowPlatform",
    "torch": "tidegate_serving.platforms.torch.platform:TorchPlatform",
    "xgboost": "tidegate_serving.platforms.boosted.xgboost:xgboost_platform",
}
_RUN_PYTHON_CODE = ("mlflow", "python", "stages")
_WITH_SETTINGS = ("onnx", "tensorflow", "torch")
Factory = Callable[[], Platform]
Factories = Mapping[str, Factory]
_log = logging.getLogger(__name__)


class PlatformRegistry:
    """Platforms by name, each imported when first asked for. Others can be added while the engine runs.

    `offered` gives those of installed packages, and is asked for a name that is not in `factories` alone: there may be
    hundreds of packages, and a worker has to start at once.
    """

    def __init__(
        self,
        factories: Factories,
        warm_up: WarmUpOptions = WarmUpOptions(),  # noqa: B008
        offered: Callable[[], Factories] = dict,
    ) -> None:
        self.warm_up = warm_up
        self._factories = dict(factories)
        self._offered = offered
        self._lock = threading.Lock()
        self._added: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted({*self._factories, *self._offered()}))

    def add(self, name: str, factory: Callable[[], Platform]) -> None:
        """Knows one platform more from now on. AlreadyExists for a name that is taken."""
        with self._lock:
            if self._find(name) is not None:
                raise AlreadyExists(f"platform {name!r} is there already: add yours under another name")
            self._factories = {**self._factories, check_name(name): factory}
            self._added.add(name)

    def copy(self) -> PlatformRegistry:
        """What it makes platforms from now, whatever it takes over later."""
        return PlatformRegistry(self._factories, self.warm_up, self._offered)

    def take_over(self, other: PlatformRegistry) -> None:
        """Makes platforms as another registry does, from now on; what was added here stays."""
        with self._lock:
            self._factories = {**self._factories, **other._factories}
            self._offered = other._offered
            self.warm_up = other.warm_up

    def check(self, name: str) -> str:
        """The name itself, or Unsupported where no platform has it."""
        self._factory(name)
        return name

    def runs_apart(self, name: str) -> bool:
        """Whether its models are better kept out of the engine's process, and another can load them: what is, or may
        be, code in Python, and what runs on a GPU, which after a fault in one kernel answers the whole process no more.
        What a running program added is there alone."""
        if name not in _BUILT_IN or name in _RUN_PYTHON_CODE:
            return name not in self._added
        platform = self._factory(name)()
        return isinstance(platform, MayUseGpu) and platform.gpu is not None

    def gpu_need(self, manifest: Manifest) -> Mapping[str, int]:
        """Bytes of GPUs that one copy of a version will need, by device; empty on the processor."""
        platform = self._platform(manifest)
        return platform.gpu_need(manifest) if isinstance(platform, MayUseGpu) else {}

    def check_settings(self, name: str) -> None:
        """InvalidInput where a platform does not take the settings that it is given. One whose library is missing is
        not asked: its first load says that."""
        if name in _BUILT_IN and name not in _WITH_SETTINGS:
            raise InvalidInput(f"platform {name!r} takes no settings: leave the table out")
        with contextlib.suppress(ImportError, Unsupported):
            self._factory(name)()

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A servable, by the platform that the manifest names."""
        return self._platform(manifest).load(directory, manifest)

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """What the model says of itself. Unsupported where its platform cannot tell."""
        platform = self._platform(manifest)
        if not isinstance(platform, Discovers):
            raise Unsupported(
                f"a signature cannot be read off a model of platform {manifest.platform!r}: write one as JSON"
            )
        return platform.discover(directory, manifest)

    def estimate(self, directory: Path, manifest: Manifest) -> Mapping[str, int]:
        """Bytes by device as the platform estimates them, else by the model's files."""
        platform = self._platform(manifest)
        if isinstance(platform, Estimates):
            need = platform.estimate(directory, manifest)
            return {RAM: need} if isinstance(need, int) else need
        return {RAM: estimate_by_files(manifest)}

    def _platform(self, manifest: Manifest) -> Platform:
        return self._factory(manifest.platform)()

    def _factory(self, name: str) -> Factory:
        found = self._find(name)
        if found is None:
            raise Unsupported(f"platform {name!r} is unknown here: use one of {', '.join(self.names)}")
        return found

    def _find(self, name: str) -> Factory | None:
        return self._factories.get(name) or self._offered().get(name)


def installed_platforms(options: PlatformOptions) -> PlatformRegistry:
    """Built-in platforms and those of installed packages; a package cannot replace a built-in one."""
    built_in = {name: partial(built_in_platform, name, options) for name in _BUILT_IN}
    return PlatformRegistry(built_in, options.warm_up, cache(partial(_offered, options)))


def _offered(options: PlatformOptions) -> Factories:
    from importlib import metadata

    found = {entry.name: _of_package(entry.load, options) for entry in metadata.entry_points(group=GROUP)}
    for name in found.keys() & _BUILT_IN.keys():
        _log.warning("an installed package offers a platform %r, which is built in and stays as it is", name)
    return found


def built_in_platform(name: str, options: PlatformOptions) -> Platform:
    """One of the built-in platforms, imported when asked for."""
    module, _, attribute = _BUILT_IN[name].partition(":")
    make: Callable[[PlatformOptions], Platform] = getattr(importlib.import_module(module), attribute)
    return make(options)


def _of_package(load: Callable[[], Callable[[PlatformOptions], Platform]], options: PlatformOptions) -> Factory:
    return lambda: load()(options)
