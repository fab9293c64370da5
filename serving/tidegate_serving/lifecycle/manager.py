"""The AspiredVersionsManager: makes what is loaded equal to what is wanted, one policy action after the other.

Sources tell it, through the router, which versions they want; it loads and unloads them on threads of their own, puts
ready ones into the serving map, and publishes every public state. After TensorFlow Serving's class of that name.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate_serving.contract.errors import (
    Cancelled,
    FailedPrecondition,
    InvalidInput,
    ModelFailed,
    ResourceExhausted,
    TidegateError,
)
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.harness import BUSY, Stage
from tidegate_serving.lifecycle.managed import Managed
from tidegate_serving.lifecycle.memory import return_memory
from tidegate_serving.lifecycle.policy import Action, Policy, Verb, availability_preserving
from tidegate_serving.lifecycle.resources import ResourceTracker
from tidegate_serving.lifecycle.retry import RetryPauses
from tidegate_serving.lifecycle.serving_map import ServingMap
from tidegate_serving.lifecycle.version_table import VersionTable
from tidegate_serving.platforms.loader import Loader
from tidegate_serving.sources.target import AspiredVersion

_log = logging.getLogger(__name__)


class TaskPool(Protocol):
    """Where loads or unloads run."""

    def submit(self, task: Callable[[], None]) -> None:
        """Runs the task soon, on another thread."""


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """How versions follow each other. `memory_limit_bytes` of 0 is none; `clock` gives monotonic seconds."""

    policy: Policy = availability_preserving
    retry: RetryPauses = field(default_factory=RetryPauses)
    memory_limit_bytes: int = 0
    clock: Callable[[], float] = time.monotonic


class AspiredVersionsManager:
    """A `Target` of loaders. `tick` does whatever can be done now; `start` runs it whenever something changed.

    Loads and unloads run on the pools given, never on the caller's thread, and never on an inference thread.
    """

    def __init__(
        self,
        serving_map: ServingMap,
        events: EventBus,
        load_pool: TaskPool,
        unload_pool: TaskPool,
        options: ManagerOptions | None = None,
    ) -> None:
        self._map = serving_map
        self._events = events
        self._load_pool = load_pool
        self._unload_pool = unload_pool
        self._options = options or ManagerOptions()
        self._resources = ResourceTracker(self._options.memory_limit_bytes)
        self._lock = threading.Condition()
        self._table = VersionTable(events.publish)
        self._dirty = False
        self._stopping = False
        self._thread: threading.Thread | None = None

    # What sources say

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[Loader]]) -> None:
        """Replaces what is wanted under a name. When it returns, new versions are in state START, unless they wait
        for an instance of themselves that is being unloaded; loading comes later.

        InvalidInput where the set holds another name or one version twice.
        """
        numbers = [version.id.version for version in versions]
        if any(version.id.name != name for version in versions) or len(set(numbers)) < len(numbers):
            raise InvalidInput(
                f"aspired versions of {name!r} are {[str(version.id) for version in versions]}: mend them"
            )
        with self._lock:
            self._table.want(name, versions)
            self._table.settle()
            self._wake()

    # What makes it so

    def origins(self) -> dict[ServableId, object]:
        """Where each version under management came from."""
        with self._lock:
            return {managed.id: managed.origin for managed in self._table.all()}

    def wanted_names(self) -> frozenset[str]:
        """Servables of which at least one version is wanted."""
        with self._lock:
            return frozenset(managed.id.name for managed in self._table.all() if managed.aspired)

    def start(self) -> None:
        """Ticks on a thread of its own from now on."""
        self._thread = threading.Thread(target=self._run, name="tidegate-manager", daemon=True)
        self._thread.start()

    def tick(self) -> None:
        """Forgets what is gone, takes what is pending, tries again what has rested, then acts until nothing is left."""
        with self._lock:
            if self._stopping:
                return
            self._table.settle()
            self._table.renew_rested(self._options.clock())
            self._act()

    def released(self, name: str, version: int) -> None:
        """The last request has left a retired version: it can be unloaded now."""
        with self._lock:
            managed = self._table.get(name, version)
            if managed is None or managed.stage is not Stage.QUIESCING:
                _log.warning("%s:%s was released, but it was not waiting for that", name, version)
                return
            managed.harness.move(Stage.QUIESCED)
        self._unload_pool.submit(lambda: self._unload(managed))

    def stop(self, timeout: float) -> bool:
        """Unloads everything and begins nothing more; True if all of it ended within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._stopping = True
            self._wake()
            for managed in self._table.all():
                managed.aspired = False
                if managed.stage is Stage.READY:
                    self._begin_unload(managed)
            while any(managed.stage in BUSY for managed in self._table.all()):
                left = deadline - time.monotonic()
                if left <= 0 or not self._lock.wait(left):
                    return False
        return True

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._dirty and not self._stopping:
                    if not self._lock.wait(self._until_retry()):
                        break
                self._dirty = False
                if self._stopping:
                    return
            try:
                self.tick()
            except Exception:
                _log.exception("the manager failed on a tick and goes on with the next")

    def _until_retry(self) -> float | None:
        due = [managed.retry_at for managed in self._table.all() if managed.retry_at is not None and managed.aspired]
        return max(0.0, min(due) - self._options.clock()) if due else None

    def _wake(self) -> None:
        with self._lock:
            self._dirty = True
            self._lock.notify_all()

    # Acting

    def _act(self) -> None:
        waiting: set[str] = set()
        while actions := [action for name in self._table.names() - waiting if (action := self._next(name))]:
            for action in sorted(actions, key=lambda action: (action.verb.value, action.id)):
                if not self._do(action):
                    waiting.add(action.id.name)

    def _next(self, name: str) -> Action | None:
        held = self._map.held(name)
        return self._options.policy([managed.snapshot(held) for managed in self._table.of(name)])

    def _do(self, action: Action) -> bool:
        managed = self._table.get(action.id.name, action.id.version)
        if managed is None:
            raise FailedPrecondition(f"the policy wants to {action.verb.name} {action.id}, which it was not shown")
        if action.verb is Verb.UNLOAD:
            self._begin_unload(managed)
            return True
        return self._begin_load(managed)

    def _begin_load(self, managed: Managed) -> bool:
        """False where memory has to be waited for."""
        loader = managed.loader
        if loader is None:
            managed.harness.move(Stage.ERROR, ModelFailed(f"{managed.id} has nothing to load from"))
            return True
        try:
            size = loader.estimate()
        except Exception as error:
            self._failed(managed, error)
            return True
        if not self._resources.reserve(managed.id, size):
            if any(other.stage in BUSY for other in self._table.all()):
                return False
            self._failed(managed, ResourceExhausted(self._no_room(managed.id, size)))
            return True
        managed.harness.move(Stage.LOAD_REQUESTED)
        managed.harness.move(Stage.LOAD_APPROVED)
        self._load_pool.submit(lambda: self._load(managed, loader))
        return True

    def _load(self, managed: Managed, loader: Loader) -> None:
        with self._lock:
            if self._given_up(managed):
                return
            managed.harness.move(Stage.LOADING)
        try:
            loaded = loader.load()
        except (Exception, SystemExit) as error:
            self._failed(managed, error)
            return
        with self._lock:
            wanted = managed.aspired
        try:
            if not wanted:
                raise Cancelled(f"{managed.id} is no longer wanted: it was unloaded as soon as it had loaded")
            self._map.publish(managed.id, loaded)
        except Exception as error:
            loader.unload()
            self._failed(managed, error)
            return
        with self._lock:
            managed.failures = 0
            managed.harness.move(Stage.READY)
            if self._stopping:
                self._begin_unload(managed)
        self._wake()

    def _given_up(self, managed: Managed) -> bool:
        if not managed.aspired:
            self._failed(managed, Cancelled(f"{managed.id} is no longer wanted: its load was cancelled"))
        return not managed.aspired

    def _failed(self, managed: Managed, error: BaseException) -> None:
        with self._lock:
            self._resources.release(managed.id)
            managed.failures += 1
            pause = self._options.retry.pause(managed.failures)
            managed.retry_at = self._options.clock() + pause if managed.aspired else None
            managed.harness.move(Stage.ERROR, _as_ours(managed.id, error))
        if managed.aspired:
            said_all = isinstance(error, TidegateError) and error.__cause__ is None
            trace = None if said_all else error
            _log.error("%s did not load, next try in %.1f s: %s", managed.id, pause, error, exc_info=trace)
        self._wake()

    def _begin_unload(self, managed: Managed) -> None:
        managed.harness.move(Stage.UNLOAD_REQUESTED)
        managed.harness.move(Stage.QUIESCING)
        self._map.retire(managed.id)

    def _unload(self, managed: Managed) -> None:
        with self._lock:
            managed.harness.move(Stage.UNLOADING)
        try:
            if managed.loader is not None:
                managed.loader.unload()
        except Exception as error:
            _log.exception("%s did not unload cleanly", managed.id)
            outcome: TidegateError | None = _as_ours(managed.id, error)
        else:
            outcome = None
        return_memory()
        with self._lock:
            self._resources.release(managed.id)
            managed.harness.move(Stage.ERROR if outcome else Stage.DISABLED, outcome)
        self._wake()

    def _no_room(self, id: ServableId, size: int) -> str:
        return (
            f"insufficient memory to load {id}: it needs {size} bytes, {self._resources.used} of "
            f"{self._resources.limit} are reserved; raise memory_limit_bytes or serve fewer versions"
        )


def _as_ours(id: ServableId, error: BaseException) -> TidegateError:
    if isinstance(error, TidegateError):
        return error
    made = ModelFailed(f"{id} failed: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made
