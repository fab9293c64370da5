"""One version under management: its harness, its loader, whether it is wanted, and when to try again.

The manager's bookkeeping; nothing else sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate_serving.contract.errors import ResourceExhausted, TidegateError
from tidegate_serving.contract.servable import ServableId, StateChange
from tidegate_serving.lifecycle.harness import Harness, Stage
from tidegate_serving.lifecycle.policy import VersionSnapshot
from tidegate_serving.platforms.loader import Loader


@dataclass(slots=True)
class Managed:
    """Mutable; guarded by the manager's lock. `need` is what its load was estimated to take, by device."""

    harness: Harness
    loader: Loader | None
    origin: object
    aspired: bool = True
    failures: int = 0
    retry_at: float | None = None
    need: Mapping[str, int] | None = None

    @property
    def id(self) -> ServableId:
        """The version's identity."""
        return self.harness.id

    @property
    def stage(self) -> Stage:
        """Where the version stands."""
        return self.harness.stage

    @property
    def hungry(self) -> bool:
        """Whether it failed for lack of memory, so that memory which comes free is a reason to try again."""
        return isinstance(self.harness.error, ResourceExhausted)

    def snapshot(self, held: frozenset[int]) -> VersionSnapshot:
        """As a policy sees it."""
        return VersionSnapshot(self.id, self.stage, self.aspired, self.id.version in held)


def announcer(publish: Callable[[StateChange], None]) -> Callable[[Harness], None]:
    """A harness's listener that publishes a change when the public state differs from the one before."""
    last: list[object] = [None]

    def moved(harness: Harness) -> None:
        if harness.public is not last[0]:
            last[0] = harness.public
            error: TidegateError | None = harness.error
            publish(
                StateChange(harness.id, harness.public, error.code if error else "", error.message if error else "")
            )

    return moved
