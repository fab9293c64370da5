"""An engine's lifecycle without sockets, clock or threads of its own, stepped by hand: sources, reconciler and manager.

Histories act on it; what must hold of every step is in `history_checks`. A world outlives its engines: folders,
what was told by watched folders and how models behave stay when one crashes or stops.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.histories.checks import NAMES, Checks
from tests.support.lifecycle.baton import Baton
from tests.support.lifecycle.fakes import FakeClock, FakeServable, manifest_of
from tests.support.lifecycle.plane_model import PlaneModel, recording_changes
from tests.support.models.versions import digest_of, publish

from tidegate_serving.admission import Standing
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.operations import Operations
from tidegate_serving.control.override_store import OverrideStore
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.control.rollback import Rollback
from tidegate_serving.journal import Journal
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.manager import AspiredVersionsManager, ManagerOptions
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.lifecycle.policy import resource_preserving
from tidegate_serving.lifecycle.retry import RetryPauses
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.requests.plane_front import PlaneFront
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.router import Router
from tidegate_serving.sources.rpc.source import RpcSource, VersionChecks
from tidegate_serving.sources.rpc.store import DesiredStateStore
from tidegate_serving.sources.target import AspiredVersion, Target

PUSHED, WATCHED, SINGLE = NAMES
VERSIONS = (1, 2, 3, 4)
PAUSES = RetryPauses(first=1.0, most=8.0, chance=lambda: 0.0)
PathVersion = AspiredVersion[VersionReference]


class Panic(BaseException):
    """What extensions raise that are no ordinary exceptions."""


@dataclass
class Temper:
    """How the model in a directory behaves. `fails`: loads that fail first; `raises`: with what."""

    size: int = 10
    measured: int | None = None
    fails: int = 0
    raises: type[BaseException] = Unavailable
    stays: bool = False

    @property
    def loads(self) -> bool:
        """Whether it can be loaded, sooner or later."""
        return self.fails < 100


@dataclass
class Told:
    """What a watched folder wants of a servable: version, revision of its files, and what is wrong with it."""

    versions: tuple[tuple[int, int, str], ...] = ()
    labels: dict[str, int] = field(default_factory=dict)


class WorldLoader:
    """A `Loader` that keeps count."""

    def __init__(self, life: Life, id: ServableId, path: VersionReference) -> None:
        self.life = life
        self.id = id
        self.path = path
        self.need = self.cost = 0
        self.loaded = False

    @property
    def temper(self) -> Temper:
        return self.life.world.temper(self.path.directory)

    def estimate(self) -> int:
        self.life.baton.pause()
        self.need = self.temper.size
        return self.need

    def load(self) -> LoadedVersion:
        self.cost = self.need
        self.life.checks.load_begins(self)
        self.life.baton.pause()
        temper = self.temper
        if temper.fails:
            temper.fails -= temper.loads
            self.life.checks.load_failed(self)
            raise temper.raises(f"{self.path.directory} does not load")
        self.loaded = True
        self.cost = self.need if temper.measured is None else temper.measured
        measured = {} if temper.measured is None else {"ram": temper.measured}
        return LoadedVersion(manifest_of(self.id), FakeServable(), measured)

    def unload(self) -> None:
        self.life.checks.unload_begins(self)
        self.life.baton.pause()
        self.loaded, self.cost = False, 0
        if self.temper.stays:
            raise self.temper.raises(f"{self.path.directory} does not unload cleanly")


class Listening:
    """Remembers what the manager is told."""

    def __init__(self, target: Target[Any]) -> None:
        self._target = target
        self.aspired: dict[str, dict[int, AspiredVersion[WorldLoader]]] = {}
        self.calls = 0

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[Any]]) -> None:
        self.calls += 1
        self.aspired[name] = {version.id.version: version for version in versions}
        self._target.set_aspired_versions(name, versions)


class Life:
    """One engine in the world, from its start to its end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.baton = Baton()
        self.checks = Checks(self)
        self.plane = PlaneModel(self.checks.plane_changed)
        self.changes: list[StateChange] = []
        self.loaders: list[WorldLoader] = []
        self.stopping = False
        self.events = events = EventBus()
        self.monitor = StateMonitor(events)
        events.subscribe(self.checks.heard)
        self.front = PlaneFront(EngineConfig(), lambda name, version: self.manager.released(name, version))
        self.front.open(self.plane)
        loads, unloads, follows = self.baton.pool(2), self.baton.pool(1), self.baton.pool(1)
        store = OverrideStore(world.state)
        self.reconciler = Reconciler(self.front, store, follows.submit, world.keeps, world.labels)
        self.manager = AspiredVersionsManager(self.reconciler, events, loads, unloads, world.options())
        self.journal = Journal(None)
        self.journal.start()
        events.subscribe(self.journal.heard)
        self._make_sources()
        self.reconciler.start(Router(lambda platform: self.loader, self.told))
        self.rpc.start()
        for name, told in world.told.items():
            self.tell(name, told)

    def _make_sources(self) -> None:
        world = self.world
        self.owners = Owners()
        self.told = Listening(self.manager)
        locator = Locator(self.reconciler, self.admit)
        self.operations = Operations(self.reconciler, locator, self.journal)
        checks = VersionChecks(
            (world.repository,),
            self,
            str,
            self.available,
            self.operations.permit,
            self.operations.blocks,
            known=self.reconciler.known,
        )
        states = DesiredStateStore(world.state)
        self.rpc = RpcSource(self.reconciler.set_desired_state, checks, states, self.owners, self.journal)
        self.rollback = Rollback(self.reconciler, self.operations, locator, self.rpc, self.owners, self.available)

    def loader(self, id: ServableId, path: VersionReference) -> WorldLoader:
        self.loaders.append(WorldLoader(self, id, path))
        return self.loaders[-1]

    def available(self, id: ServableId) -> bool:
        change = self.monitor.state(id)
        return change is not None and change.state is State.AVAILABLE

    def tell(self, name: str, told: Told) -> None:
        """As the file system source would."""
        self.owners.claim(name, "watched folder")
        versions = [self.world.watched(name, *version) for version in told.versions]
        self.reconciler.set_aspired_versions(name, versions)
        if not versions:
            self.owners.release(name, "watched folder")

    def release(self) -> int:
        """The native plane tells of retired versions whose last request has left."""
        gone = self.plane.released()
        for name, version in gone:
            self.front.on_released(name, version)
        return len(gone)

    def settle(self) -> None:
        """Ticks and steps until nothing moves; requests are answered."""
        self.plane.handles.clear()
        for _ in range(300):
            self.manager.tick()
            moved = self.release()
            while self.baton.step(0):
                moved += 1
            if not moved:
                return
        raise AssertionError("the engine never comes to rest")

    def end(self) -> None:
        """Whatever it is doing, it does no more."""
        self.baton.abandon()
        self.journal.stop()
        self.rpc.stop()
        self.rpc.close()

    def admit(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Everybody."""

    check = admit

    def vouch(self, digests: Collection[str]) -> None:
        """Nothing is refused for its date."""

    def standing(self, digest: str) -> Standing:
        return Standing()

    def mark(self) -> object:
        return None


class World:
    """Folders and models; `life` is the engine that runs now. `forgot`: the disk was full once, so that not everything
    that counted was kept."""

    def __init__(self, state: Path, repository: Path) -> None:
        self.state = state
        self.repository = repository
        self.clock = FakeClock()
        self.tempers: dict[Path, Temper] = {}
        self.told: dict[str, Told] = {}
        self.labels: dict[str, dict[str, int]] = {}
        self.kept: set[str] = set()
        self.limit = 0
        self.disk_full = self.forgot = False
        self.life = Life(self)

    def options(self) -> ManagerOptions:
        return ManagerOptions(
            policies={SINGLE: resource_preserving},
            retry=PAUSES,
            memory_limits={"ram": self.limit},
            clock=self.clock,
            resident=lambda: 0,
        )

    def temper(self, directory: Path) -> Temper:
        return self.tempers.setdefault(directory, Temper())

    def keeps(self, name: str) -> bool:
        return name in self.kept

    def watched(self, name: str, version: int, revision: int, error: str) -> PathVersion:
        wanted = ServableId(name, version)
        if error:
            return AspiredVersion(wanted, None, TidegateError(error))
        path = self.repository / f"{name}-{revision}" / name / str(version)
        return AspiredVersion(wanted, VersionReference(version, path, f"{name}{version}-{revision}", "python"))

    def crash(self) -> None:
        """Nothing of the engine is left but what lies on disk."""
        self.life.end()
        self.begin()

    def begin(self) -> None:
        """An engine starts."""
        self.life = Life(self)

    def stop(self) -> None:
        """As the engine stops, whatever it is doing."""
        life = self.life
        life.stopping = True
        life.rpc.stop()
        life.rpc.close()
        life.front.close()
        ended = life.manager.stop(0.0)
        while not ended:
            while life.baton.step(0):
                pass
            moved = life.release()
            ended = life.manager.stop(0.0)
            assert ended or moved or life.baton.choices, "the manager cannot stop"
        while life.baton.step(0):
            pass
        life.checks.stopped()
        life.journal.stop()
        life.checks.journal_agrees()


@contextmanager
def worlds(folder: Path) -> Iterator[Callable[[], World]]:
    """Makes worlds over one repository of published versions; nothing is synced, and changes are recorded."""
    repository = (folder / "repository").resolve()
    for place in ("a", "b"):
        for version in VERSIONS:
            publish(repository / place, PUSHED, version)
    made: list[World] = []

    def make() -> World:
        made.append(World(folder / f"state-{len(made)}", repository))
        return made[-1]

    def write(path: Path, data: bytes) -> None:
        if made and made[-1].disk_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    native = recording_changes()
    with (
        mock.patch("tidegate_serving.files.state.write_atomically", write),
        mock.patch("tidegate_serving.requests.plane_front.native", native),
        mock.patch("tidegate_serving.requests.model_traffic.native", native),
    ):
        yield make
        for world in made:
            world.life.end()


def pushed_directory(world: World, version: int, place: str) -> tuple[Path, str]:
    """Where a version lies that can be pushed, and its manifest's digest."""
    directory = world.repository / place / PUSHED / str(version)
    return directory, digest_of(directory)
