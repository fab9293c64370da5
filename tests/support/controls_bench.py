"""Steering, decisions, rollback and the RPC Source over a plane of no processes, for tests of what people decide.

Tests propose versions, push them and decide; the plane says what would serve.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tests.support.fakes import FakeTarget
from tests.support.versions import digest_of, publish

from tidegate_serving.admission import Standing
from tidegate_serving.contract.errors import (
    NotAdmitted,
)
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.operations import Asked, Controls
from tidegate_serving.control.override_store import OrderStore
from tidegate_serving.control.overrides import SplitRule
from tidegate_serving.control.reconciler import Steering, Surroundings
from tidegate_serving.control.rollback import Rollback
from tidegate_serving.control.status import Shadow
from tidegate_serving.journal import Journal, Kind
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.rpc import Push, PushedVersion, RpcSource, VersionChecks
from tidegate_serving.sources.rpc_state import WishStore
from tidegate_serving.sources.target import AspiredVersion, VersionPath

ANNA = Asked("m", "anna", "it is late")


class Plane(FakeTarget):
    """Target, traffic and valves in one: versions are there as soon as they are wanted, unless they are slow."""

    def __init__(self) -> None:
        super().__init__()
        self.slow: set[int] = set()
        self.labels: dict[str, int] = {}
        self.shadow: Shadow | None = None
        self.off = ""
        self.shares: Mapping[int, float] = {}

    def there(self, name: str = "m") -> list[int]:
        return [number for number in self.usable(name) if number not in self.slow]

    def set_labels(self, name: str, labels: Mapping[str, int], wanted: Collection[int] | None = None) -> None:
        self.labels = dict(labels)

    def set_shadow(self, name: str, shadow: Shadow | None) -> None:
        self.shadow = shadow

    def set_enabled(self, name: str, enabled: bool, reason: str) -> None:
        assert enabled is not bool(reason)
        self.off = reason

    def set_split(self, name: str, split: SplitRule | None) -> None:
        self.shares = {} if split is None else split.shares

    def serving(self, name: str) -> int | None:
        stable = self.labels.get("stable")
        if stable in self.there(name):
            return stable
        return max(self.there(name), default=None)


class ControlsBench:
    """Decisions and pushes over one plane, with everything kept under `folder`; `restart` begins anew from there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "repository"
        self.keep = False
        self.unadmitted: set[int] = set()
        self.stop: Callable[[], None] = lambda: None
        self.begin()

    def begin(self) -> None:
        self.plane, self.owners, self.journal = Plane(), Owners(), Journal(self.folder / "state")
        around = Surroundings(self.plane, self.plane, lambda task: task(), lambda name: self.keep)
        self.steering = Steering(self.plane, OrderStore(self.folder / "state"), around)
        wishes = WishStore(self.folder / "state")
        locator = Locator(self.steering, self.admit)
        self.controls = Controls(self.steering, locator, self.journal)
        checks = VersionChecks((self.root,), self, lambda platform: platform, self.available, self.controls.permit)
        self.rpc = RpcSource(self.steering, checks, wishes, self.owners, self.journal)
        self.rollback = Rollback(self.steering, self.controls, locator, self.rpc, self.owners, self.available)
        self.stop = self.rpc.stop
        self.steering.start()
        self.rpc.start()

    def restart(self) -> None:
        self.stop()
        self.begin()

    def available(self, id: ServableId) -> bool:
        return id.version in self.plane.there(id.name)

    def admit(self, directory: Path, manifest: Manifest, digest: str) -> None:
        if manifest.id.version in self.unadmitted:
            raise NotAdmitted(f"{directory} has no verdict")

    check = admit

    def standing(self, digest: str) -> Standing:
        return Standing()

    def mark(self) -> object:
        return None

    def directory(self, version: int) -> Path:
        found = self.root / "m" / str(version)
        return found if found.exists() else publish(self.root, "m", version)

    def propose(self, *versions: int) -> None:
        """As the file system source would."""
        paths = [(n, VersionPath(self.directory(n), digest_of(self.directory(n)), "python")) for n in versions]
        self.steering.set_aspired_versions("m", [AspiredVersion(ServableId("m", n), path) for n, path in paths])
        self.came()

    def push(self, *versions: int, **labels: int) -> None:
        pushed = tuple(PushedVersion(n, str(self.directory(n)), digest_of(self.directory(n))) for n in versions)
        self.rpc.set_aspired(Push("m", pushed, labels, requested_by="ben"))
        self.came()

    def came(self) -> None:
        """The engine tells that something has become available."""
        self.steering.heard(StateChange(ServableId("m", 1), State.AVAILABLE))

    def actions(self) -> list[str]:
        return [entry.action for entry in self.journal.read() if entry.kind is Kind.CONTROL]
