"""Who is admitted, as the config says now: an admission whose rules are swapped while the engine runs.

Loaders and the RPC Source ask it; a reload puts another admission in its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_serving.admission.admission import Admission
from tidegate_serving.contract.manifest import Manifest

if TYPE_CHECKING:
    from tidegate_serving.admission.admission import Standing


class LiveAdmission:
    """An `Admission` that asks `now`."""

    def __init__(self, now: Admission) -> None:
        self.now = now

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """What the present admission says."""
        self.now.check(directory, manifest, digest)

    def standing(self, digest: str) -> Standing:
        """By what right a version serves, as the present admission knows it."""
        return self.now.standing(digest)

    def mark(self) -> object:
        """Changes with the present admission's, and with the admission itself."""
        now = self.now
        return id(now), now.mark()
