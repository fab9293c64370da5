"""LightGBM models that `save_model` wrote, as text; see `boosted.platform` for metadata and inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import ModelFailed
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.boosted.features import Features
from tidegate_serving.platforms.boosted.platform import BoostedPlatform
from tidegate_serving.platforms.platform import PlatformOptions, library

SUFFIXES = (".txt", ".lgb", ".lightgbm", ".model")
_LAST_LINE = "\nend of parameters"
_CATEGORICAL = re.compile(r"^\[categorical_feature: (\d+(?:,\d+)*)\]$", re.MULTILINE)
_OPTIONS = {"margin": {"raw_score": True}, "leaf": {"pred_leaf": True}, "contributions": {"pred_contrib": True}}


def lightgbm_platform(options: PlatformOptions) -> BoostedPlatform:
    """The platform; no option changes it."""
    return BoostedPlatform("lightgbm", SUFFIXES, _read)


class LightgbmBooster:
    """The library's booster."""

    def __init__(self, booster: Any, text: str, threads: int) -> None:
        self._booster = booster
        self._threads = threads
        head = dict(line.split("=", 1) for line in text.partition("\nTree=")[0].splitlines() if "=" in line)
        names = tuple(booster.feature_name())
        own = names != tuple(f"Column_{index}" for index in range(len(names)))
        categories = _categories(_categorical(names, head, text), booster.pandas_categorical)
        self.features = Features(len(names), names if own else None, "float64", categories)
        self.binary = head.get("objective", "").split(" ")[0] in ("binary", "cross_entropy")

    def result(self, name: str, data: Array) -> Array:
        """One of the results."""
        made: Array = self._booster.predict(data, num_threads=self._threads, **_OPTIONS.get(name, {}))
        return made


def _read(path: Path, threads: int) -> LightgbmBooster:
    with library("lightgbm", "lightgbm"):
        import lightgbm
    try:
        text = path.read_text(encoding="utf-8")
        if _LAST_LINE not in text:
            raise ModelFailed(f"{path} is no LightGBM model that `save_model` wrote, or cut short: save it again")
        return LightgbmBooster(lightgbm.Booster(model_str=text), text, threads)
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise ModelFailed(f"{path} is no LightGBM model that `save_model` wrote: {error}") from error


def _categorical(names: Sequence[str], head: Mapping[str, str], text: str) -> list[str]:
    """The features that are categorical: those that the file's parameters count up, else those whose values it lists
    one by one instead of as a range.
    """
    told = _CATEGORICAL.search(text)
    if told is not None:
        return [names[int(index)] for index in told[1].split(",")]
    infos = head.get("feature_infos", "").split()
    return [name for name, info in zip(names, infos, strict=True) if not info.startswith("[") and info != "none"]


def _categories(columns: Sequence[str], listed: Sequence[Sequence[Any]] | None) -> dict[str, Sequence[Any]]:
    """The categories that pandas columns had, which the file lists in the order of the columns. None where the file
    says it otherwise.
    """
    if not listed:
        return {}
    if len(columns) != len(listed):
        raise ModelFailed(
            f"the model has {len(columns)} categorical features and lists the categories of {len(listed)}: "
            "train it again without columns that never vary"
        )
    return {name: [_as_bytes(item) for item in items] for name, items in zip(columns, listed, strict=True)}


def _as_bytes(category: Any) -> Any:
    return category.encode() if isinstance(category, str) else category
