"""Makes the source of a table `[sources.NAME]`: one that is built in, or one of an installed package.

A package offers a source by an entry point of the group `tidegate.sources`: a callable that takes its table and a
`SourceContext` and returns a `Source`. It checks the table and does nothing before `start`, because a reload's dry run
calls it too. A new built-in source gets a folder in `sources` and a line in `_BUILT_IN`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, Protocol, runtime_checkable

from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unsupported
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.target import Source

GROUP = "tidegate.sources"
_BUILT_IN = {
    "mlflow": "tidegate_serving.sources.mlflow.source:make_source",
    "object_store": "tidegate_serving.sources.objects.source:make_source",
}


SourceFactory = Callable[[Mapping[str, Any], SourceContext], Source]


@runtime_checkable
class NamesServables(Protocol):
    """What a `Source` may offer besides, so that after a reload the servables that it no longer names are given up."""

    def names(self) -> frozenset[str] | None:
        """Servables of which it may aspire versions; None as long as it does not know.

        For a source without this method, those of which it has aspired versions when its start has returned.
        """


def make_source(name: str, table: Mapping[str, Any], context: SourceContext) -> Source:
    """The source of a table, not started.

    InvalidInput for an unknown name or a table that cannot be used, Unsupported where a library is missing.
    """
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
