"""Sources that a config adds by name, each from a table `[sources.NAME]`: those built in and those of other packages.

`extra_sources` asks for each table. A package offers one under the entry point group `tidegate.sources`, as a callable
that takes its table and a `SourceContext` and returns a `Source`; it checks the table and does nothing before `start`,
because a reload's dry run calls it too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tidegate_serving.admission.admission import Admission
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unsupported
from tidegate_serving.sources.owners import Claims
from tidegate_serving.sources.problems import Reports
from tidegate_serving.sources.target import Source, Target

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

    target: Target[VersionReference]
    admission: Admission
    owners: Claims
    problems: Reports
    state_directory: Path | None = None


SourceFactory = Callable[[Mapping[str, Any], SourceContext], Source]


@runtime_checkable
class Named(Protocol):
    """What a `Source` may offer besides, so that what only its earlier table wanted is given up in time."""

    def names(self) -> frozenset[str] | None:
        """Servables that it may want something of; None as long as it does not know. Without this method: those that
        it has wanted something of when its start is over."""


def make_source(name: str, table: Mapping[str, Any], context: SourceContext) -> Source:
    """The source of a table, not started. InvalidInput for a name that nobody offers, and for a table that cannot be;
    Unsupported where what it needs is not installed."""
    factory = _factory(name)
    try:
        return factory(table, context)
    except TidegateError:
        raise
    except Exception as error:
        raise InvalidInput(f"[sources.{name}] cannot be used ({type(error).__name__}: {error}): mend it") from error


def _factory(name: str) -> SourceFactory:
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        built_in: SourceFactory = getattr(importlib.import_module(module), attribute)
        return built_in
    offered = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if name not in offered:
        known = ", ".join(sorted({*_BUILT_IN, *offered}))
        raise InvalidInput(f"source {name!r} is unknown: use one of {known}, or install the package that offers it")
    try:
        factory: SourceFactory = offered[name].load()
    except Exception as error:
        raise Unsupported(
            f"source {name!r} cannot be loaded ({type(error).__name__}: {error}): mend or reinstall the package that "
            f"offers it as {offered[name].value}"
        ) from error
    return factory
