"""The AspiredVersionsManager: makes what is loaded equal to what is aspired, one policy action after the other.

Sources tell it, through the router, which versions they want; it loads and unloads them on threads of their own, puts
ready ones into the serving map, and publishes every public state. A tick looks only at servables of which something
changed. After TensorFlow Serving's class of that name.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
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
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.contract.words import place_of, text_of, trace_of, words_of
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.harness import Stage
from tidegate_serving.lifecycle.managed import Managed
from tidegate_serving.lifecycle.memory import GrowthGauge, MemoryReturn, resident_bytes
from tidegate_serving.lifecycle.policy import Action, Policy, Verb, availability_preserving
from tidegate_serving.lifecycle.resources import ResourceTracker, as_need
from tidegate_serving.lifecycle.retry import RetryPauses
from tidegate_serving.lifecycle.version_table import VersionTable
from tidegate_serving.platforms.loader import LoadedVersion, Loader
from tidegate_serving.platforms.memory_need import RAM
from tidegate_serving.sources.target import AspiredVersion

MEASURABLE_BYTES = 16 << 20
_MOST_TEXT = 16_000
_log = logging.getLogger(__name__)


class ServingMap(Protocol):
    """Versions that requests can be routed to. Swapped whole, so that nobody ever sees half a change."""

    def publish(self, id: ServableId, loaded: LoadedVersion) -> None:
        """Routes to a version, and moves the labels that waited for it in the same instant."""

    def retire(self, id: ServableId) -> None:
        """Routes to it no more; the manager's `released` is called once the last request has left it."""

    def held(self, name: str) -> frozenset[int]:
        """Versions that must stay because a label, or ordinary traffic, waits there for another version."""


class TaskPool(Protocol):
    """Where loads or unloads run."""

    def submit(self, task: Callable[[], None]) -> None:
        """Runs the task soon, on another thread."""


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """How versions follow each other.

    policies: by servable, instead of `policy`. memory_limits: bytes by device (`ram`, `gpu:0`); 0 or absent is none.
    pre_load: called with the id on the load thread before each load; what it raises fails the load.
    clock: monotonic seconds. resident: this process's resident bytes.
    """

    policy: Policy = availability_preserving
    policies: Mapping[str, Policy] = field(default_factory=dict)
    retry: RetryPauses = field(default_factory=RetryPauses)
    memory_limits: Mapping[str, int] = field(default_factory=dict)
    pre_load: Callable[[ServableId], None] | None = None
    clock: Callable[[], float] = time.monotonic
    resident: Callable[[], int] = resident_bytes


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
        self._load_pool = load_pool
        self._unload_pool = unload_pool
        self._options = options or ManagerOptions()
        self._resources = ResourceTracker(self._options.memory_limits)
        self._gauge = GrowthGauge(self._options.resident)
        self._memory = MemoryReturn(self._options.resident)
        self._lock = threading.Condition()
        self._table = VersionTable(events.publish)
        self._waiting: set[str] = set()
        self._room = False
        self._dirty = False
        self._stopping = False
        self._thread: threading.Thread | None = None

    # What sources say

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[Loader]]) -> None:
        """Replaces what is aspired under a name. When it returns, new versions are in state START, unless they wait
        for an instance of themselves that is being unloaded; loading comes later. Nothing once it is stopping.

        InvalidInput where the set holds another name or one version twice.
        """
        numbers = [version.id.version for version in versions]
        if any(version.id.name != name for version in versions) or len(set(numbers)) < len(numbers):
            raise InvalidInput(
                f"aspired versions of {name!r} are {[str(version.id) for version in versions]}: mend them"
            )
        with self._lock:
            if not self._stopping:
                self._table.set_aspired(name, versions)
                self._wake()

    # What makes it so

    def origins(self, of: Collection[ServableId] | None = None) -> dict[ServableId, object]:
        """Where each version under management came from, or each of some."""
        with self._lock:
            if of is None:
                return {managed.id: managed.made_of.origin for managed in self._table.all()}
            found = (self._table.get(one.name, one.version) for one in of)
            return {managed.id: managed.made_of.origin for managed in found if managed is not None}

    def aspired_names(self) -> frozenset[str]:
        """Servables of which at least one version is aspired."""
        with self._lock:
            return self._table.aspired

    def is_aspired(self, name: str) -> bool:
        """Whether at least one version of a servable is aspired."""
        with self._lock:
            return self._table.is_aspired(name)

    def wanted(self, name: str) -> dict[ServableId, tuple[State, TidegateError | None]]:
        """How the aspired versions of a servable stand: AVAILABLE, END with what its last load failed of, else START.

        An instance that is on its way out, to be loaded anew, counts as START.
        """
        with self._lock:
            return {managed.id: managed.progress for managed in self._table.of(name) if managed.aspired}

    def reserved(self, id: ServableId) -> Mapping[str, int]:
        """Bytes that a version has reserved, by device: its estimate, and its measured size once it has loaded."""
        with self._lock:
            return dict(self._resources.reserved(id))

    def reconfigure(self, options: ManagerOptions) -> None:
        """Other policies, pauses, budgets and hook from now on; clock and gauge stay."""
        with self._lock:
            self._options = options
            self._resources.set_limits(options.memory_limits)
            self._table.renew_hungry()
            self._table.touch_all()
            self._finished()

    def retry_failed(self) -> None:
        """Tries every wanted version that failed at once, as when it may be loaded now and might not before."""
        with self._lock:
            self._table.renew_failed()
            self._finished()

    def start(self) -> None:
        """Ticks on a thread of its own from now on."""
        self._thread = threading.Thread(target=self._run, name="tidegate-manager", daemon=True)
        self._thread.start()

    def tick(self) -> None:
        """Forgets what is gone, tries again what has rested, then acts until nothing is left."""
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
            self._table.give_up_all()
            self._table.settle()
            for managed in self._table.all():
                if managed.stage is Stage.READY:
                    self._begin_unload(managed)
            while self._table.busy:
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
        due = self._table.next_rest()
        return None if due is None else max(0.0, due - self._options.clock())

    def _wake(self) -> None:
        with self._lock:
            self._dirty = True
            self._lock.notify_all()

    def _finished(self) -> None:
        """A load or an unload has ended: there may be room for what waits."""
        with self._lock:
            self._room = True
            self._wake()

    # Acting

    def _act(self) -> None:
        names = self._table.take_touched()
        if self._room:
            names |= self._waiting
            self._waiting, self._room = set(), False
        while actions := [action for name in names if (action := self._next(name))]:
            for action in sorted(actions, key=lambda action: (action.verb.value, action.id)):
                if not self._do(action):
                    self._waiting.add(action.id.name)
            names = self._table.take_touched() - self._waiting

    def _next(self, name: str) -> Action | None:
        versions = self._table.of(name)
        if not versions:
            return None
        held = self._map.held(name)
        policy = self._options.policies.get(name, self._options.policy)
        return policy([managed.snapshot(held) for managed in versions])

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
        loader = managed.made_of.payload
        if loader is None:
            managed.harness.move(Stage.ERROR, ModelFailed(f"{managed.id} has nothing to load from"))
            return True
        if managed.need is None:
            self._ask_for_need(managed, loader)
            return True
        short = self._resources.reserve(managed.id, managed.need)
        if short:
            if self._table.busy:
                return False
            self._failed(managed, ResourceExhausted(short))
            return True
        managed.harness.move(Stage.LOAD_REQUESTED)
        managed.harness.move(Stage.LOAD_APPROVED)
        self._load_pool.submit(lambda: self._load(managed, loader))
        return True

    def _ask_for_need(self, managed: Managed, loader: Loader) -> None:
        """On a load thread and without the lock: files are looked at, and those of one servable may stall."""
        version = managed.made_of
        if managed.estimating is version:
            return
        managed.estimating = version

        def ask() -> None:
            try:
                need = as_need(managed.id, loader.estimate())
            except BaseException as error:
                self._estimated(managed, version, error)
            else:
                self._estimated(managed, version, need)

        self._load_pool.submit(ask)

    def _estimated(
        self, managed: Managed, version: AspiredVersion[Loader], outcome: Mapping[str, int] | BaseException
    ) -> None:
        with self._lock:
            if managed.stage is not Stage.NEW or managed.made_of is not version:
                return
            if isinstance(outcome, BaseException):
                self._failed(managed, outcome)
                return
            managed.need = outcome
            self._table.touch(managed.id.name)
            self._wake()

    def _load(self, managed: Managed, loader: Loader) -> None:
        with self._lock:
            if not managed.aspired or managed.outdated:
                self._cancelled(managed)
                return
            managed.harness.move(Stage.LOADING)
        reading = self._gauge.begin()
        try:
            if self._options.pre_load is not None:
                self._options.pre_load(managed.id)
            loaded = loader.load()
        except BaseException as error:  # a model's code is anybody's, and the panic of an extension is no Exception
            self._gauge.end(reading)
            self._failed(managed, error)
            return
        grown = self._gauge.end(reading)
        try:
            there = self._publish(managed, loaded, as_need(managed.id, loaded.measured), grown)
        except Exception as error:
            self._take_back(managed, loader)
            self._failed(managed, error)
            return
        if not there:
            self._take_back(managed, loader)
            self._cancelled(managed)

    def _publish(self, managed: Managed, loaded: LoadedVersion, measured: Mapping[str, int], grown: int | None) -> bool:
        """Lets requests in, where it is still wanted as it is: asked and done in one go. Raises where the map does."""
        with self._lock:
            if not managed.aspired or managed.outdated:
                return False
            self._map.publish(managed.id, loaded)
            managed.failures = 0
            self._correct(managed, measured, grown)
            managed.harness.move(Stage.READY)
            self._finished()
            return True

    def _correct(self, managed: Managed, measured: Mapping[str, int], grown: int | None) -> None:
        """The measured size replaces the estimate: what the loader says it took, else, of memory, what the process grew
        by. Small differences, and growth under half of the estimate (memory that was free already), are not worth
        believing."""
        need = {**self._resources.reserved(managed.id), **measured}
        if RAM not in measured and grown is not None:
            told = need.get(RAM, 0)
            need[RAM] = grown if abs(grown - told) > MEASURABLE_BYTES and 2 * grown >= told else told
        if need != self._resources.reserved(managed.id):
            _log.info("%s takes %s bytes; it was estimated to need %s", managed.id, need, managed.need)
            self._resources.correct(managed.id, need)

    def _cancelled(self, managed: Managed) -> None:
        """Its load ended because nobody wants it, or not so; where somebody does, it begins anew at once."""
        with self._lock:
            self._resources.release(managed.id)
            why = "has changed meanwhile" if managed.aspired else "is no longer wanted"
            managed.harness.move(Stage.ERROR, Cancelled(f"{managed.id} {why}: its load was cancelled"))
            if managed.aspired:
                self._table.renew(managed)
            self._finished()

    def _failed(self, managed: Managed, error: BaseException) -> None:
        with self._lock:
            self._resources.release(managed.id)
            managed.failures += 1
            managed.harness.move(Stage.ERROR, _as_ours(managed.id, error))
            known, managed.complaint = managed.complaint, place_of(error)
            then = self._try_again(managed) if managed.aspired else ""
            self._finished()
        if then:
            said_all = isinstance(error, TidegateError) and error.__cause__ is None
            trace = "" if said_all or known == managed.complaint else f"\n{trace_of(error)}"
            _log.error("%s did not load, %s: %s%s", managed.id, then, text_of(error, _MOST_TEXT), trace)

    def _try_again(self, managed: Managed) -> str:
        """What becomes of a version that is wanted and failed, in words."""
        retry = self._options.retry
        if managed.newer is not None:
            self._table.renew(managed)
            return "what its source has by now is loaded instead"
        if retry.are_spent(managed.failures):
            self._table.give_up(managed)
            return f"the last of {managed.failures} tries until its files or the config change"
        pause = retry.pause(managed.failures)
        self._table.rest(managed, self._options.clock() + pause)
        return f"next try in {pause:.1f} s"

    def _take_back(self, managed: Managed, loader: Loader) -> BaseException | None:
        """Unloads what is in no map, or in none any more; what went wrong with that."""
        reading = self._gauge.begin()
        try:
            loader.unload()
        except BaseException as error:
            _log.error("%s did not unload cleanly\n%s", managed.id, trace_of(error))
            return error
        finally:
            self._memory.unloaded(
                self._resources.reserved(managed.id).get(RAM, 0), reading.resident, self._table.servables
            )
            self._gauge.end(reading)
        return None

    def _begin_unload(self, managed: Managed) -> None:
        managed.harness.move(Stage.UNLOAD_REQUESTED)
        managed.harness.move(Stage.QUIESCING)
        self._map.retire(managed.id)

    def _unload(self, managed: Managed) -> None:
        with self._lock:
            managed.harness.move(Stage.UNLOADING)
        loader = managed.made_of.payload
        wrong = None if loader is None else self._take_back(managed, loader)
        with self._lock:
            freed = self._resources.release(managed.id)
            error = None if wrong is None else _as_ours(managed.id, wrong)
            managed.harness.move(Stage.DISABLED if error is None else Stage.ERROR, error)
            if managed.aspired:
                self._table.renew(managed)
            if freed:
                self._table.renew_hungry()
            self._finished()


def _as_ours(id: ServableId, error: BaseException) -> TidegateError:
    if isinstance(error, TidegateError):
        return error
    made = ModelFailed(f"{id} failed: {words_of(error)}")
    made.__cause__ = error
    return made
