"""Every version under management.

The manager's bookkeeping, without threads: which versions are new, kept, given up
or forgotten is decided here and nowhere else. It knows which servables were touched since it was last asked, so that a
tick costs in proportion to what changed and not to what there is.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence

from tidegate_serving.contract.errors import Cancelled
from tidegate_serving.contract.servable import ServableId, StateChange
from tidegate_serving.lifecycle.harness import BUSY, GONE, Harness, Stage
from tidegate_serving.lifecycle.managed import Managed, announcer
from tidegate_serving.platforms.loader import Loader
from tidegate_serving.sources.target import AspiredVersion


class VersionTable:
    """Versions by name and number. Not synchronised: its owner holds a lock."""

    def __init__(self, publish: Callable[[StateChange], None]) -> None:
        self._publish = publish
        self._versions: dict[str, dict[int, Managed]] = {}
        self._aspired: set[str] = set()
        self._touched: set[str] = set()
        self._busy: set[Harness] = set()
        self._rests: list[tuple[float, int, Managed]] = []
        self._given_up: dict[ServableId, Managed] = {}
        self._order = itertools.count()

    def all(self) -> list[Managed]:
        """Every version."""
        return [managed for versions in self._versions.values() for managed in versions.values()]

    def of(self, name: str) -> list[Managed]:
        """The versions of one servable."""
        return list(self._versions.get(name, {}).values())

    def get(self, name: str, version: int) -> Managed | None:
        """One version."""
        return self._versions.get(name, {}).get(version)

    @property
    def servables(self) -> int:
        """How many servables have a version under management."""
        return len(self._versions)

    @property
    def aspired(self) -> frozenset[str]:
        """Servables of which at least one version is aspired."""
        return frozenset(self._aspired)

    def is_aspired(self, name: str) -> bool:
        """Whether at least one version of a servable is aspired."""
        return name in self._aspired

    @property
    def busy(self) -> bool:
        """Whether any version is on its way in or out."""
        return bool(self._busy)

    def set_aspired(self, name: str, versions: Sequence[AspiredVersion[Loader]]) -> None:
        """Replaces what is aspired under a name.

        A version that is being unloaded is loaded fresh once that is done; the others do not wait for it. One that was
        given up but has not begun to leave is simply kept. (TensorFlow Serving waits for it to leave, which the policy
        may never allow.) One that failed gets a new start when its origin changed.
        """
        self._touched.add(name)
        self.settle()
        (self._aspired.add if versions else self._aspired.discard)(name)
        present = self._versions.setdefault(name, {})
        for managed in present.values():
            managed.aspired = False
        for version in versions:
            known = present.get(version.id.version)
            if known is None or (known.stage in GONE and known.made_of.origin != version.origin):
                present[version.id.version] = self._manage(version)
            else:
                known.take_up(version)
        self._touched.add(name)
        self.settle()

    def touch(self, name: str) -> None:
        """Something that counts has changed for a servable."""
        self._touched.add(name)

    def give_up_all(self) -> None:
        """Nothing is wanted any more."""
        self._aspired.clear()
        for managed in self.all():
            managed.aspired = False
        self.touch_all()

    def take_touched(self) -> set[str]:
        """Servables of which anything changed since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def touch_all(self) -> None:
        """What counts has changed for every servable."""
        self._touched |= self._versions.keys()

    def settle(self) -> None:
        """Forgets what is gone, and what is new and not wanted any more."""
        for name in self._touched:
            versions = self._versions.get(name, {})
            for number, managed in list(versions.items()):
                if not managed.aspired and managed.stage is Stage.NEW:
                    managed.harness.move(Stage.ERROR, Cancelled(f"{managed.id} is no longer wanted"))
                if not managed.aspired and managed.stage in GONE:
                    del versions[number]
                    self._given_up.pop(managed.id, None)
            if not versions:
                self._versions.pop(name, None)

    def rest(self, managed: Managed, until: float) -> None:
        """A version that failed is tried again once that time has come."""
        managed.retry_at = until
        heapq.heappush(self._rests, (until, next(self._order), managed))

    def give_up(self, managed: Managed) -> None:
        """A version that failed is not tried again for its own sake, only when something changes that may help it."""
        self._given_up[managed.id] = managed

    def next_rest(self) -> float | None:
        """When the next version has rested long enough, or None."""
        while self._rests and not self._is_resting(*self._rests[0]):
            heapq.heappop(self._rests)
        return self._rests[0][0] if self._rests else None

    def renew(self, managed: Managed) -> None:
        """A version that has ended gets a new start, as its source has it by now."""
        self._given_up.pop(managed.id, None)
        again = self._versions[managed.id.name][managed.id.version] = self._manage(managed.newer or managed.made_of)
        if managed.newer is None:
            again.failures, again.complaint = managed.failures, managed.complaint

    def renew_rested(self, now: float) -> None:
        """Gives wanted versions that failed and have rested long enough a new start."""
        while (due := self.next_rest()) is not None and due <= now:
            self.renew(heapq.heappop(self._rests)[2])

    def renew_hungry(self) -> None:
        """Memory came free: versions that failed for lack of it need not rest any longer."""
        for managed in self._failed():
            if managed.hungry:
                self.renew(managed)

    def renew_failed(self) -> None:
        """Versions that failed may fare better now: none of them rests any longer, and each has all its attempts."""
        for managed in self._failed():
            managed.failures = 0
            self.renew(managed)

    def _failed(self) -> list[Managed]:
        """Wanted versions that failed, whether they are tried again or not."""
        resting = [managed for until, order, managed in self._rests if self._is_resting(until, order, managed)]
        return resting + [one for one in self._given_up.values() if one.aspired and self._is_present(one)]

    def _is_resting(self, until: float, _order: int, managed: Managed) -> bool:
        return managed.aspired and managed.retry_at == until and self._is_present(managed)

    def _is_present(self, managed: Managed) -> bool:
        return self.get(managed.id.name, managed.id.version) is managed

    def _manage(self, version: AspiredVersion[Loader]) -> Managed:
        """Takes a version under management: new, or failed at once where it comes with an error."""
        harness = Harness(version.id, self._listener(announcer(self._publish)))
        managed = Managed(harness, version)
        if version.error is not None:
            harness.move(Stage.ERROR, version.error)
        return managed

    def _listener(self, announce: Callable[[Harness], None]) -> Callable[[Harness], None]:
        def moved(harness: Harness) -> None:
            self._touched.add(harness.id.name)
            (self._busy.add if harness.stage in BUSY else self._busy.discard)(harness)
            announce(harness)

        return moved
