"""Makes what is served equal to what is desired: hears sources, operators and the manager, and tells the latter two.

Sources have it for a target, the manager for its serving map. At each change of what is desired, decided or loaded it
asks `routing.resolve`, sends requests where that says, and tells the manager which versions to have loaded.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.override_store import OverrideStore
from tidegate_serving.control.overrides import NO_OVERRIDES, Overrides
from tidegate_serving.control.routing import Routing, references, resolve
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.requests.model_traffic import ModelTraffic
from tidegate_serving.requests.plane_front import PlaneFront
from tidegate_serving.sources.target import AspiredVersion, Target

_log = logging.getLogger(__name__)
Aspired = tuple[AspiredVersion[VersionReference], ...]


@dataclass(slots=True)
class _Servable:
    """What is known of one servable. `program` is what the program that the engine lives in decided, which is kept
    nowhere; `told` is what the manager was told last, `overtaken` what the log last said of label `stable`."""

    desired: DesiredState
    program: Overrides = NO_OVERRIDES
    told: Aspired = ()
    overtaken: tuple[int, int] | None = None
    routing: Routing = field(init=False)

    def __post_init__(self) -> None:
        self.routing = Routing(traffic=ModelTraffic(self.desired.servable))


@dataclass(slots=True)
class _Reload:
    """What waits until a reload is over: `labels` for the versions that come with them, servables that a source is
    `leaving` for whoever takes them over."""

    labels: dict[str, Mapping[str, int]] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)

    def forget(self, name: str) -> None:
        """Nothing of it waits any more."""
        self.labels.pop(name, None)
        self.leaving.discard(name)


class Reconciler:
    """`submit` runs a task soon on another thread; `keep_previous` says of a servable whether the version that served
    before stays loaded although its desired state does not say so, `follow_stable` whether its ordinary requests follow
    that label; `labels` are those that the config gives, for sources that bring none."""

    def __init__(
        self,
        front: PlaneFront,
        store: OverrideStore,
        submit: Callable[[Callable[[], None]], None],
        keep_previous: Callable[[str], bool] = lambda name: False,
        labels: Mapping[str, Mapping[str, int]] | None = None,
        follow_stable: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self._front = front
        self._store = store
        self._submit = submit
        self._keep_previous = keep_previous
        self._follow_stable = follow_stable
        self._target: Target[VersionReference] | None = None
        # One change at a time is made and told to the manager. The manager calls in with a lock of its own held: then
        # only the second lock is taken, under which nobody calls the manager.
        self._turn = threading.RLock()
        self._lock = threading.Lock()
        self._given = {name: dict(given) for name, given in (labels or {}).items() if given}
        self._servables = {name: _Servable(DesiredState(name, labels=given)) for name, given in self._given.items()}
        self._reload: _Reload | None = None
        self._unfollowed: set[str] = set()

    def start(self, target: Target[VersionReference]) -> None:
        """Tells the target from now on. Decisions of earlier runs count before any source speaks."""
        with self._turn:
            self._target = target
            for name in self._store.names():
                _, history = self._store.get(name)
                servable = self._of(name)
                servable.routing = replace(servable.routing, history=history, memory=history)
                self._apply(name)

    # What sources say

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[VersionReference]]) -> None:
        """The versions that a source wants of one servable; one that takes it over has the labels that were given for
        it. During a reload labels that wait go with them, and an empty set waits for whoever takes the servable over.
        """
        with self._turn:
            if self._reload is not None and not versions:
                self._reload.leaving.add(name)
                return
            before = self.desired(name)
            if not before.versions and not before.unusable:
                before = replace(before, labels=self._given.get(name, before.labels))
            desired = _with_versions(before, versions)
            if self._reload is not None:
                desired = replace(desired, labels=self._reload.labels.get(name, desired.labels))
            self.set_desired_state(desired)

    def set_desired_state(self, desired: DesiredState) -> None:
        """All of it at once, so that ordinary traffic is never where neither what was nor what is to be has it."""
        with self._turn:
            if self._reload is not None:
                self._reload.forget(desired.servable)
            self._of(desired.servable).desired = desired
            self._apply(desired.servable)

    def edit(self, name: str, change: Callable[[DesiredState], DesiredState]) -> None:
        """Something else is desired than now."""
        with self._turn:
            self.set_desired_state(change(self.desired(name)))

    def set_labels(self, name: str, labels: Mapping[str, int]) -> None:
        """The whole label set that is desired. During a reload it waits for the versions that come with it."""
        with self._turn:
            self._given[name] = dict(labels)
            if self._reload is not None:
                self._reload.labels[name] = dict(labels)
            else:
                self.edit(name, lambda desired: replace(desired, labels=dict(labels)))

    @contextmanager
    def reload(self) -> Iterator[None]:
        """A reload of the config: what it changes of one servable becomes one change, and a source that lets go of a
        servable lets go at the end, unless another has taken it over."""
        with self._turn:
            self._reload = _Reload()
        try:
            yield
        finally:
            with self._turn:
                waiting, self._reload = self._reload or _Reload(), None
                for name, labels in waiting.labels.items():
                    self._of(name).desired = replace(self.desired(name), labels=labels)
                for name in waiting.leaving:
                    self._of(name).desired = _with_versions(self.desired(name), ())
                for name in sorted(waiting.leaving | waiting.labels.keys()):
                    self._apply(name)

    def leaving(self) -> frozenset[str]:
        """Servables that a source has let go of since the reload began and that nobody has taken over."""
        with self._turn:
            return frozenset(self._reload.leaving) if self._reload is not None else frozenset()

    def stays(self, name: str) -> None:
        """A servable that was let go of is taken over by a source that has not spoken of it yet."""
        with self._turn:
            if self._reload is not None:
                self._reload.leaving.discard(name)

    # What operators decide

    def decide(self, name: str, change: Callable[[Overrides], Overrides], *, even_if_lost: bool = False) -> bool:
        """Keeps new overrides and follows them; False where they are what they were. Raises where they cannot be kept,
        and nothing changes; with `even_if_lost` they count until the engine stops, and then it raises."""
        with self._turn:
            before, history = self._store.get(name)
            after = change(before)
            if after == before:
                return False
            lost: TidegateError | None = None
            try:
                self._store.put(name, (after, history))
            except TidegateError as error:
                if not even_if_lost:
                    raise
                self._store.put_in_memory(name, (after, history))
                lost = error
            self._apply(name)
        if lost is not None:
            raise type(lost)(f"{name}: this counts now, and is forgotten when the engine stops: {lost}") from lost
        return True

    def decide_unkept(self, name: str, change: Callable[[Overrides], Overrides]) -> None:
        """Follows overrides by the program that the engine lives in, kept nowhere; an operator's count more."""
        with self._turn:
            servable = self._of(name)
            servable.program = change(servable.program)
            self._apply(name)

    # What the manager does: a `ServingMap`

    def publish(self, id: ServableId, loaded: LoadedVersion) -> None:
        """Routes requests to a version; labels, shadow and split that waited for it move in the same instant."""
        publication = self._front.prepare(id, loaded)
        with self._lock:
            servable = self._of(id.name)
            routing = self._resolve(id.name, servable.routing.traffic.versions | {id.version})
            self._front.publish(id, publication, routing.traffic)
            follow = self._moved(servable, routing)
        if follow:
            self._submit(self._catch_up)

    def retire(self, id: ServableId) -> None:
        """Routes requests to a version no more; its labels and its shadow go with it."""
        with self._lock:
            servable = self._of(id.name)
            routing = self._resolve(id.name, servable.routing.traffic.versions - {id.version})
            follow = self._front.retire(id, routing.traffic) and self._moved(servable, routing)
        if follow:
            self._submit(self._catch_up)

    def held(self, name: str) -> frozenset[int]:
        """Versions that must stay because a label, or ordinary traffic, waits there for another version."""
        with self._lock:
            return self.routing(name).held

    # For everybody

    def names(self) -> frozenset[str]:
        """Servables that something is desired of or decided about."""
        with self._lock:
            return frozenset(self._servables) | frozenset(self._store.names())

    def knows(self, name: str) -> bool:
        """Whether something is desired of it or decided about it."""
        return name in self._servables or self._store.knows(name)

    def desired(self, name: str) -> DesiredState:
        """What is desired of a servable."""
        found = self._servables.get(name)
        return DesiredState(name) if found is None else found.desired

    def overrides(self, name: str) -> Overrides:
        """What operators decided about a servable."""
        return self._store.get(name)[0]

    def routing(self, name: str) -> Routing:
        """What was made of a servable last."""
        found = self._servables.get(name)
        return Routing(traffic=ModelTraffic(name)) if found is None else found.routing

    def known(self, name: str, version: int) -> VersionReference | None:
        """A version that is or was desired, or that a decision names, by its number."""
        return references(self.desired(name), self.overrides(name), self.routing(name)).get(version)

    def needed(self, name: str) -> frozenset[VersionReference]:
        """The versions that serve, are to, or that a decision names: their files must stay."""
        return frozenset((*self.routing(name).known.values(), *self.overrides(name).references()))

    def refresh(self, name: str) -> None:
        """Something that counts has changed outside, such as the config."""
        with self._turn:
            self._apply(name)

    def _of(self, name: str) -> _Servable:
        return self._servables.setdefault(name, _Servable(DesiredState(name)))

    def _resolve(self, name: str, loaded: frozenset[int]) -> Routing:
        servable, (overrides, _) = self._of(name), self._store.get(name)
        overrides = replace(
            overrides,
            disabled=overrides.disabled or servable.program.disabled,
            split=overrides.split or servable.program.split,
        )
        keep = servable.desired.keep_previous or self._keep_previous(name)
        follow = self._follow_stable(name)
        return resolve(servable.desired, overrides, loaded, servable.routing, keep, follow)

    def _apply(self, name: str) -> None:
        """Traffic first: what can move moves before its old version is given up, and what cannot holds it."""
        with self._lock:
            servable, before = self._of(name), self.routing(name)
            routing = self._resolve(name, before.traffic.versions)
            if routing.traffic != before.traffic:
                self._front.apply(routing.traffic)
            servable.routing = routing
            _say_overtaken(servable)
        self._follow(name, freed=bool(before.held - routing.held))

    def _moved(self, servable: _Servable, routing: Routing) -> bool:
        """Whether somebody has to be sent to tell the manager, on another thread, what follows from a move that it has
        made: its lock is held now."""
        before, servable.routing = servable.routing, routing
        _say_overtaken(servable)
        changed = routing.aspired != servable.told or routing.memory != before.memory
        if not changed and routing.traffic.versions:
            return False
        idle = not self._unfollowed
        self._unfollowed.add(routing.traffic.model)
        return idle

    def _catch_up(self) -> None:
        with self._lock:
            names, self._unfollowed = self._unfollowed, set()
        for name in sorted(names):
            try:
                with self._turn:
                    self._follow(name, freed=False)
            except Exception:
                _log.exception("what came or went of %s could not be followed, the next change tries again", name)

    def _follow(self, name: str, freed: bool) -> None:
        """Has the turn: keeps what has to be known after a restart, and tells the manager."""
        servable = self._of(name)
        routing, told = servable.routing, servable.told
        overrides, memory = self._store.get(name)
        if routing.memory != memory and (routing.aspired or told):
            self._remember(name, overrides, routing)
        if routing.aspired != told or (routing.aspired and freed):  # the policy is asked anew about what was held
            servable.told = routing.aspired
            if self._target is not None:
                self._target.set_aspired_versions(name, routing.aspired)
        with self._lock:
            servable = self._of(name)
            needed = servable.desired.is_anything or servable.program != NO_OVERRIDES or self._store.knows(name)
            if not needed and not servable.routing.traffic.versions:
                del self._servables[name]

    def _remember(self, name: str, overrides: Overrides, routing: Routing) -> None:
        record = overrides, routing.memory
        try:
            self._store.put(name, record)
        except TidegateError as error:
            self._store.put_in_memory(name, record)
            _log.error("what serves now and served before is forgotten at the engine's end: %s", error)


def _say_overtaken(servable: _Servable) -> None:
    """Says once that label `stable` keeps ordinary requests off the newest version, which it would not in TensorFlow
    Serving."""
    found = servable.routing.overtaken
    if found is not None and found != servable.overtaken:
        name, (ordinary, newest) = servable.desired.servable, found
        _log.info(
            "requests for %s without version and label go to version %d, which has label `stable`, not to the newest, "
            "version %d: move or remove the label to change that",
            name,
            ordinary,
            newest,
        )
    servable.overtaken = found


def _with_versions(desired: DesiredState, versions: Sequence[AspiredVersion[VersionReference]]) -> DesiredState:
    """What a source wants that knows versions alone; labels and shadow stay."""
    unusable = {
        version.id.version: version.error or ModelFailed(f"{version.id} has nothing to load from")
        for version in versions
        if version.payload is None
    }
    usable = tuple(version.payload for version in versions if version.payload is not None)
    return DesiredState(desired.servable, usable, desired.labels, desired.shadow, unusable=unusable)
