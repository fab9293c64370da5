"""What the data plane counted about shadowed requests of one version.

The engine hands in its counters; a comparison shows them beside what the log holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate_serving.inference_log.comparison import Copies


def copies_of(counters: Mapping[str, float], model: str, version: int) -> Copies:
    """Copies made for a version, dropped at its full queue, and not fitting its signature."""
    names = (
        f'tidegate_shadow_{what}_total{{model="{model}",version="{version}"}}'
        for what in ("copied", "dropped", "failed")
    )
    copied, dropped, failed = (int(counters.get(name, 0)) for name in names)
    return Copies(copied, dropped, failed)
