"""Where models are placed, as it was decided last and stands in etcd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Placement:
    """The nodes of each model, in order of their ids, and the bytes that it counts for on each (`sizes`). `evicted` are
    copies that left for the sake of others, as model and node; `missing` says why of each model that has fewer copies
    than it must have, or no room for all its bytes."""

    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    evicted: frozenset[tuple[str, str]] = frozenset()
    missing: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
