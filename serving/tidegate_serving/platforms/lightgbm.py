"""LightGBM models that `save_model` wrote, as text.

Metadata: `lightgbm.file` (default: the only .txt, .lgb, .lightgbm or .model file), `lightgbm.outputs` (see
`output_rules`; a result is `predict`, `margin`, `leaf` or `contributions`), `lightgbm.threads` (default 1). Inputs are
the model's features by name, or one matrix; NaN is missing, and so is a category that the model does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import ModelFailed
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.boosted import BoostedServable, discovered
from tidegate_serving.platforms.discovery import Discovered
from tidegate_serving.platforms.features import Features
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.platform import PlatformOptions, missing_library, model_file, thread_count

SUFFIXES = (".txt", ".lgb", ".lightgbm", ".model")
_LAST_LINE = "\nend of parameters"
_OUTPUTS = "lightgbm.outputs"
_OPTIONS = {"margin": {"raw_score": True}, "leaf": {"pred_leaf": True}, "contributions": {"pred_contrib": True}}


class LightgbmPlatform:
    """Loads a booster."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options

    def discover(self, directory: Path, manifest: Manifest) -> Discovered:
        """Features and output as the booster has them."""
        return discovered(_load(directory, manifest), _OUTPUTS)

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A booster whose features are held against the signatures before anybody asks it."""
        return BoostedServable(_load(directory, manifest), manifest, _OUTPUTS)


class LightgbmBooster:
    """The library's booster."""

    def __init__(self, booster: Any, text: str, threads: int) -> None:
        self._booster = booster
        self._threads = threads
        head = dict(line.split("=", 1) for line in text.partition("\nTree=")[0].splitlines() if "=" in line)
        names = tuple(booster.feature_name())
        own = names != tuple(f"Column_{index}" for index in range(len(names)))
        categories = _categories(names, head.get("feature_infos", "").split(), booster.pandas_categorical)
        self.features = Features(len(names), names if own else None, "float64", categories)
        self.binary = head.get("objective", "").split(" ")[0] in ("binary", "cross_entropy")

    def result(self, name: str, data: Array) -> Array:
        """One of the results."""
        made: Array = self._booster.predict(data, num_threads=self._threads, **_OPTIONS.get(name, {}))
        return made


def _load(directory: Path, manifest: Manifest) -> LightgbmBooster:
    try:
        import lightgbm
    except ImportError as error:
        raise missing_library("lightgbm", "lightgbm", "lightgbm") from error
    path = model_file(manifest, directory, "lightgbm.file", SUFFIXES)
    threads = thread_count(manifest, "lightgbm.threads")
    try:
        text = path.read_text(encoding="utf-8")
        if _LAST_LINE not in text:
            raise ModelFailed(f"{path} is no LightGBM model that `save_model` wrote, or cut short: save it again")
        return LightgbmBooster(lightgbm.Booster(model_str=text), text, threads)
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise ModelFailed(f"{path} is no LightGBM model that `save_model` wrote: {error}") from error


def _categories(
    names: Sequence[str], infos: Sequence[str], listed: Sequence[Sequence[Any]] | None
) -> dict[str, Sequence[Any]]:
    """The categories that pandas columns had, which the file lists in the order of the columns that are categorical:
    those whose values the file lists one by one instead of as a range. None where the file says it otherwise.
    """
    if not listed:
        return {}
    columns = [name for name, info in zip(names, infos, strict=True) if not info.startswith("[") and info != "none"]
    if len(columns) != len(listed):
        raise ModelFailed(
            f"the model has {len(columns)} categorical features and lists the categories of {len(listed)}: "
            "train it again without columns that never vary"
        )
    return {name: [_as_bytes(item) for item in items] for name, items in zip(columns, listed, strict=True)}


def _as_bytes(category: Any) -> Any:
    return category.encode() if isinstance(category, str) else category
