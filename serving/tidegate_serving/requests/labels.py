"""Where labels and ordinary clients go now, given what is wanted and which versions are there: pure functions.

The endpoint to the data plane asks whenever a version comes or goes or something else is wanted, and moves them in the same
instant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidegate_serving.control.routing import STABLE


def settle_labels(
    current: Mapping[str, int], wanted: Mapping[str, int], available: Collection[int], ordinary: int | None = None
) -> dict[str, int]:
    """Each wanted label on its version where that is available, else where it was as long as that is available.

    Label `stable` was where `ordinary` clients are, also where there was no such label.
    """
    settled = {}
    for label, version in wanted.items():
        before = ordinary if label == STABLE else current.get(label)
        if version in available:
            settled[label] = version
        elif before in available and before is not None:
            settled[label] = before
    return settled


def held_versions(current: Mapping[str, int], wanted: Mapping[str, int]) -> frozenset[int]:
    """Versions that a label has to stay on until the version that it waits for is available."""
    return frozenset(version for label, version in current.items() if wanted.get(label, version) != version)


def settle_ordinary(before: int | None, wanted: Collection[int] | None, available: Collection[int]) -> int | None:
    """Where requests without version and label go while nobody wants a label `stable`: to the newest version that is
    wanted and there; until there is one they stay `before`, as long as that is there. None wanted means any is."""
    there = available if wanted is None else [version for version in available if version in wanted]
    if not there and before in available:
        return before
    return max(there or available, default=None)
