"""Sources that a config adds by name, each from a table `[sources.NAME]`: those built in and those of other packages.

The assembly asks once. A package offers one under the entry point group `tidegate.sources`, as a callable that takes
its table and a `SourceContext` and returns a `Source`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.sources.admission import Admission
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems
from tidegate_serving.sources.target import Source, Target, VersionPath

GROUP = "tidegate.sources"
_BUILT_IN = {
    "mlflow": "tidegate_serving.sources.mlflow.source:make_source",
    "object_store": "tidegate_serving.sources.objects.source:make_source",
}


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source works with: the target that it speaks to, who admits, who owns which name, where problems go, and
    the folder where it may remember things, None for an engine that forgets.
    """

    target: Target[VersionPath]
    admission: Admission
    owners: Owners
    problems: SourceProblems
    state_directory: Path | None = None


SourceFactory = Callable[[Mapping[str, Any], SourceContext], Source]


def extra_sources(tables: Mapping[str, Mapping[str, Any]], context: SourceContext) -> tuple[Source, ...]:
    """One source per table. InvalidInput for a name that nobody offers, and what the sources say of their tables."""
    return tuple(_factory(name)(table, context) for name, table in tables.items())


def _factory(name: str) -> SourceFactory:
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        built_in: SourceFactory = getattr(importlib.import_module(module), attribute)
        return built_in
    offered = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if name not in offered:
        known = ", ".join(sorted({*_BUILT_IN, *offered}))
        raise InvalidInput(f"source {name!r} is unknown: use one of {known}, or install the package that offers it")
    factory: SourceFactory = offered[name].load()
    return factory
