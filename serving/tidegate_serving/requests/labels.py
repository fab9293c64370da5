"""Where labels and the tee point now, given what is wanted and which versions are there: pure functions.

The door to the data plane asks whenever a version comes or goes, and moves labels in the same instant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def settle_labels(current: Mapping[str, int], wanted: Mapping[str, int], available: Collection[int]) -> dict[str, int]:
    """Each wanted label on its version where that is available, else where it was as long as that is available."""
    settled = {}
    for label, version in wanted.items():
        if version in available:
            settled[label] = version
        elif current.get(label) in available:
            settled[label] = current[label]
    return settled


def held_versions(current: Mapping[str, int], wanted: Mapping[str, int]) -> frozenset[int]:
    """Versions that a label has to stay on until the version that it waits for is available."""
    return frozenset(version for label, version in current.items() if wanted.get(label, version) != version)
