"""One version under management: its harness, what it is made of, whether it is still aspired, and when to try again.

The manager's bookkeeping; nothing else sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate_serving.contract.errors import ResourceExhausted, TidegateError
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.lifecycle.harness import LEAVING, Harness, Stage
from tidegate_serving.lifecycle.policy import VersionSnapshot
from tidegate_serving.platforms.loader import Loader
from tidegate_serving.sources.target import AspiredVersion


@dataclass(slots=True)
class Managed:
    """Mutable; guarded by the manager's lock. `made_of` is what it is loaded from, `newer` what its source has said
    since that is not the same. `failures` are those in a row, of the instances before it too, and `complaint` is where
    the last of them arose. `estimating` is the one whose size is being estimated, `need` the result, by device."""

    harness: Harness
    made_of: AspiredVersion[Loader]
    failures: int = 0
    complaint: object = None
    aspired: bool = True
    newer: AspiredVersion[Loader] | None = None
    retry_at: float | None = None
    estimating: AspiredVersion[Loader] | None = None
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

    @property
    def outdated(self) -> bool:
        """Whether its source wants something else under its number by now."""
        return self.newer is not None and self.newer.content != self.made_of.content

    @property
    def progress(self) -> tuple[State, TidegateError | None]:
        """AVAILABLE, END with its error, or START for all that is on its way, out of the map and into it again too."""
        if self.stage is Stage.READY:
            return State.AVAILABLE, None
        if self.stage is Stage.ERROR:
            return State.END, self.harness.error
        return State.START, None

    def take_up(self, version: AspiredVersion[Loader]) -> None:
        """It is wanted, again or still. What has not begun to load yet is what was said last; what is on its way out,
        or on its way in and fails or is outdated, will be."""
        self.aspired = True
        if self.stage is Stage.NEW and version.origin != self.made_of.origin:
            self.made_of, self.need, self.failures, self.complaint = version, None, 0, None
            if version.error is not None:
                self.harness.move(Stage.ERROR, version.error)
        else:
            same = version.origin == self.made_of.origin and self.stage not in LEAVING
            self.newer = None if same else version

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
