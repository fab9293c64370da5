"""What a worker is to load and how: made by the engine, read by the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tidegate_serving.platforms.platform import PlatformOptions, WarmUpOptions


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """directory: the version's files, which the worker verifies against `manifest`, the text of one.
    options: what the engine's operator allows and sets.
    stage: which of several stages of the version it is; empty for the whole version.
    allowed_batch_sizes: the only numbers of rows that the model will be asked for, empty for any; for its warm-up.
    """

    directory: Path
    manifest: str
    options: PlatformOptions
    allowed_batch_sizes: tuple[int, ...] = ()
    stage: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As it travels in a message: a worker does not ask which stage it is."""
        warm_up = self.options.warm_up
        return {
            "directory": str(self.directory),
            "manifest": self.manifest,
            "allow_pickle": self.options.allow_pickle,
            "settings": {name: dict(table) for name, table in self.options.settings.items()},
            "warm_up": [warm_up.enabled, warm_up.iterations, list(warm_up.batch_sizes)],
            "allowed_batch_sizes": list(self.allowed_batch_sizes),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The one that `to_dict` was made of."""
        enabled, iterations, batch_sizes = data["warm_up"]
        warm_up = WarmUpOptions(enabled, iterations, tuple(batch_sizes))
        options = PlatformOptions(data["allow_pickle"], data["settings"], warm_up)
        return cls(Path(data["directory"]), data["manifest"], options, tuple(data["allowed_batch_sizes"]))

    def warm_up(self) -> WarmUpOptions:
        """How the worker warms up: at the numbers of rows that it will be asked for."""
        warm_up, sizes = self.options.warm_up, self.allowed_batch_sizes
        if not sizes:
            return warm_up
        from tidegate_serving.config.model import BatchingConfig

        return replace(warm_up, size_for=BatchingConfig(max_batch_rows=sizes[-1], allowed_batch_sizes=sizes).size_for)
