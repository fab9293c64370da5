"""Every version under management, and the wishes that have not been taken up yet.

The manager's bookkeeping, without threads: wishes come in through the manager; which versions are new, kept, given up
or forgotten is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate_serving.contract.errors import Cancelled
from tidegate_serving.contract.servable import StateChange
from tidegate_serving.lifecycle.harness import GONE, LEAVING, Stage
from tidegate_serving.lifecycle.managed import Managed, manage
from tidegate_serving.platforms.loader import Loader
from tidegate_serving.sources.target import AspiredVersion


class VersionTable:
    """Versions by name and number, and the newest wish by name. Not synchronised: its owner holds a lock."""

    def __init__(self, publish: Callable[[StateChange], None]) -> None:
        self._publish = publish
        self._versions: dict[str, dict[int, Managed]] = {}
        self._pending: dict[str, tuple[AspiredVersion[Loader], ...]] = {}

    def names(self) -> set[str]:
        """Servables with at least one version."""
        return set(self._versions)

    def all(self) -> list[Managed]:
        """Every version."""
        return [managed for versions in self._versions.values() for managed in versions.values()]

    def of(self, name: str) -> list[Managed]:
        """The versions of one servable."""
        return list(self._versions.get(name, {}).values())

    def get(self, name: str, version: int) -> Managed | None:
        """One version."""
        return self._versions.get(name, {}).get(version)

    def want(self, name: str, versions: Sequence[AspiredVersion[Loader]]) -> None:
        """Only the newest wish of a name counts."""
        self._pending[name] = tuple(versions)

    def settle(self) -> None:
        """Forgets what is gone and takes up every wish that can be.

        A wish for a version that is being unloaded waits until that is gone, and then it is loaded fresh.
        """
        self._flush()
        for name, wanted in list(self._pending.items()):
            numbers = {version.id.version for version in wanted}
            if not any(managed.id.version in numbers and managed.stage in LEAVING for managed in self.of(name)):
                del self._pending[name]
                self._take(name, wanted)
        self._flush()

    def renew_rested(self, now: float) -> None:
        """Gives wanted versions that failed and have rested long enough a new start."""
        for managed in self.all():
            if managed.retry_at is not None and managed.retry_at <= now and managed.aspired:
                again = AspiredVersion(managed.id, managed.loader, origin=managed.origin)
                fresh = manage(again, self._publish, managed.failures)
                self._versions[managed.id.name][managed.id.version] = fresh

    def _take(self, name: str, wanted: Sequence[AspiredVersion[Loader]]) -> None:
        """A version that was given up but has not begun to leave is simply kept; one that failed gets a new start when
        its origin changed. (TensorFlow Serving waits for the first to leave, which the policy may never allow.)
        """
        present = self._versions.setdefault(name, {})
        for managed in present.values():
            managed.aspired = False
        for version in wanted:
            known = present.get(version.id.version)
            if known is None or (known.stage in GONE and known.origin != version.origin):
                present[version.id.version] = manage(version, self._publish)
            else:
                known.aspired = True

    def _flush(self) -> None:
        for name, versions in list(self._versions.items()):
            for number, managed in list(versions.items()):
                if not managed.aspired and managed.stage is Stage.NEW:
                    managed.harness.move(Stage.ERROR, Cancelled(f"{managed.id} is no longer wanted"))
                if not managed.aspired and managed.stage in GONE:
                    del versions[number]
            if not versions:
                del self._versions[name]
