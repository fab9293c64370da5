"""Reconciler, operations, rollback and the RPC Source over a manager without threads, for tests of decisions.

Tests say what a source wants, push versions and decide; the bench says what serves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tests.support.lifecycle.fakes import FakePlane, FakeServable, FakeTarget, manifest_of
from tests.support.models.versions import digest_of, publish

from tidegate_serving.admission import Standing
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import NotAdmitted
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.deciding import Requester
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.operations import Operations
from tidegate_serving.control.override_store import OverrideStore
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.control.rollback import Rollback
from tidegate_serving.journal import Journal, Kind
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.requests.plane_front import PlaneFront
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.rpc.source import RpcSource, VersionChecks
from tidegate_serving.sources.rpc.store import DesiredStateStore
from tidegate_serving.sources.target import AspiredVersion

ANNA = Requester("m", "anna", "it is late")


class InstantManager(FakeTarget):
    """Versions are there as soon as they are aspired, unless they are slow, and leave as soon as nothing holds them."""

    def __init__(self) -> None:
        super().__init__()
        self.reconciler: Reconciler | None = None
        self.slow: set[int] = set()
        self.loaded: dict[str, set[int]] = {}

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[VersionReference]]) -> None:
        super().set_aspired_versions(name, versions)
        self.tick(name)

    def tick(self, name: str) -> None:
        """Loads and unloads until nothing is left to do."""
        assert self.reconciler is not None
        loaded = self.loaded.setdefault(name, set())
        while new := set(self.usable(name)) - self.slow - loaded:
            one = ServableId(name, max(new))
            loaded.add(one.version)
            self.reconciler.publish(one, LoadedVersion(manifest_of(one), FakeServable()))
        aspired = set(self.numbers(name))
        while gone := loaded - aspired - (self.reconciler.held(name) if aspired else set()):
            one = ServableId(name, min(gone))
            loaded.remove(one.version)
            self.reconciler.retire(one)


class OperationsBench:
    """Decisions and pushes, with everything kept under `folder`; `restart` begins anew from there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "repository"
        self.keep = False
        self.unadmitted: set[int] = set()
        self.begin()

    def begin(self) -> None:
        self.manager, self.owners, self.journal = InstantManager(), Owners(), Journal(self.folder / "state")
        self.front = PlaneFront(EngineConfig(), lambda name, version: None)
        self.front.open(FakePlane())
        store = OverrideStore(self.folder / "state")
        self.reconciler = Reconciler(self.front, store, lambda task: task(), lambda name: self.keep)
        self.manager.reconciler = self.reconciler
        locator = Locator(self.reconciler, self.admit)
        self.operations = Operations(self.reconciler, locator, self.journal)
        checks = VersionChecks(
            (self.root,),
            self,
            lambda platform: platform,
            self.available,
            self.operations.permit,
            self.operations.blocks,
            known=self.reconciler.known,
        )
        states = DesiredStateStore(self.folder / "state")
        self.rpc = RpcSource(self.reconciler.set_desired_state, checks, states, self.owners, self.journal)
        self.rollback = Rollback(self.reconciler, self.operations, locator, self.rpc, self.owners, self.available)
        self.reconciler.start(self.manager)
        self.rpc.start()

    def stop(self) -> None:
        self.rpc.stop()
        self.rpc.close()

    def restart(self) -> None:
        self.stop()
        self.begin()

    def available(self, id: ServableId) -> bool:
        return id.version in self.there(id.name)

    def admit(self, directory: Path, manifest: Manifest, digest: str) -> None:
        if manifest.id.version in self.unadmitted:
            raise NotAdmitted(f"{directory} has no verdict")

    check = admit

    def vouch(self, digests: Collection[str]) -> None:
        """Nothing is refused for its date."""

    def standing(self, digest: str) -> Standing:
        return Standing()

    def mark(self) -> object:
        return None

    def reference(self, version: int) -> VersionReference:
        """A version that is published, at the latest now."""
        return VersionReference(version, self.directory(version), digest_of(self.directory(version)), "python")

    def directory(self, version: int) -> Path:
        found = self.root / "m" / str(version)
        return found if found.exists() else publish(self.root, "m", version)

    def want(self, *versions: int) -> None:
        """As the file system source would."""
        aspired = [AspiredVersion(ServableId("m", version), self.reference(version)) for version in versions]
        self.reconciler.set_aspired_versions("m", aspired)

    def push(self, *versions: int, **labels: int) -> None:
        references = tuple(map(self.reference, versions))
        self.rpc.set_desired_state(DesiredState("m", references, labels, requested_by="ben"))

    def hurry(self) -> None:
        """What was slow has loaded."""
        self.manager.slow = set()
        self.manager.tick("m")

    def there(self, name: str = "m") -> list[int]:
        return sorted(self.reconciler.routing(name).traffic.versions)

    @property
    def serving(self) -> int | None:
        return self.reconciler.routing("m").traffic.ordinary

    @property
    def labels(self) -> Mapping[str, int]:
        """Where labels are to be."""
        return self.reconciler.routing("m").labels

    @property
    def off(self) -> str:
        return self.reconciler.routing("m").traffic.disabled

    @property
    def shares(self) -> Mapping[int, float]:
        split = self.reconciler.routing("m").traffic.split
        return {} if split is None else split.shares

    def actions(self) -> list[str]:
        return [entry.action for entry in self.journal.read() if entry.kind is Kind.CONTROL]
