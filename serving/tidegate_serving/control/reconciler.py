"""Between the sources and the engine: what sources propose goes through what people decided, and comes out as told.

Every source has it for a target and for its labels and shadow; the router and the data plane's endpoint are behind it. It also
remembers what ordinary clients got before, so that one call takes them back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.servable import State, StateChange
from tidegate_serving.control.hold import Hold
from tidegate_serving.control.override_store import OrderStore
from tidegate_serving.control.overrides import NOTHING, KnownVersion, Orders, SplitRule, with_served
from tidegate_serving.control.routing import Course, PathVersion, Proposal, steer
from tidegate_serving.control.status import Shadow
from tidegate_serving.sources.target import Target, VersionPath

_log = logging.getLogger(__name__)
_NOWHERE: tuple[Mapping[str, int], frozenset[int]] = ({}, frozenset())
_TURNS = (State.AVAILABLE, State.UNLOADING, State.END)


class Traffic(Protocol):
    """Where labels and the shadow of a servable are set; both wait for their version to become AVAILABLE."""

    def set_labels(self, name: str, labels: Mapping[str, int], wanted: Collection[int] | None = None) -> None:
        """The whole wanted label set, and which versions ordinary clients may be on while none of them is `stable`."""

    def set_shadow(self, name: str, shadow: Shadow | None) -> None:
        """The wanted shadow, or none."""


class Valves(Protocol):
    """What the data plane can do for a servable besides labels and shadow."""

    def set_enabled(self, name: str, enabled: bool, reason: str) -> None:
        """The kill switch."""

    def set_split(self, name: str, split: SplitRule | None) -> None:
        """How ordinary traffic is divided, or not."""

    def serving(self, name: str) -> int | None:
        """The version that ordinary clients get now."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What steering works on: `submit` runs a task soon on another thread; `keep_previous` says of a servable whether
    the version that served before stays loaded; `labels` are those that the config gives by servable."""

    traffic: Traffic
    valves: Valves
    submit: Callable[[Callable[[], None]], None]
    keep_previous: Callable[[str], bool] = lambda name: False
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class Steering:
    """A `Target` of paths, and of all that may be wanted with them."""

    def __init__(self, target: Target[VersionPath], store: OrderStore, around: Surroundings) -> None:
        self._target = target
        self._store = store
        self._around = around
        self._lock = threading.RLock()
        self._proposals = {name: Proposal(labels=labels) for name, labels in around.labels.items() if labels}
        self._told: dict[str, Course] = {}
        self._routes: dict[str, tuple[Mapping[str, int], frozenset[int]]] = {}
        self._serving: dict[str, int] = {}
        self._paths: dict[str, dict[int, VersionPath]] = {}
        self._hold: Hold | None = None
        self._heard: set[str] = set()
        self._listening = threading.Lock()

    def start(self) -> None:
        """Decisions of earlier runs count before any source speaks."""
        with self._lock:
            for name in self._store.names():
                if (kept := self._store.get(name).serving) is not None:
                    self._serving[name] = kept.version
                self._apply(name)

    # What sources say

    def set_aspired_versions(self, name: str, versions: Sequence[PathVersion]) -> None:
        """The wanted set of one servable, as its source proposes it. During a reload labels that wait go with it, and
        an empty set waits for whoever takes the servable over."""
        with self._lock:
            if self._hold is not None and not versions:
                self._hold.leaving.add(name)
                return
            self._adopt(name, versions)

    def set_labels(self, name: str, labels: Mapping[str, int]) -> None:
        """The label set that the config proposes. During a reload it waits for the versions that come with it."""
        with self._lock:
            if self._hold is not None:
                self._hold.labels[name] = dict(labels)
                return
            self._proposals[name] = replace(self.proposal(name), labels=dict(labels))
            self._apply(name)

    def propose(
        self, name: str, versions: Sequence[PathVersion], labels: Mapping[str, int], shadow: Shadow | None
    ) -> None:
        """All of it at once, so that ordinary clients are never where neither what was nor what is to be has them."""
        with self._lock:
            if self._hold is not None:
                self._hold.forget(name)
            self._proposals[name] = Proposal(tuple(versions), dict(labels), shadow)
            self._apply(name)

    def hold(self) -> None:
        """A reload begins: what it changes of one servable becomes one change, and who lets go of one lets go last."""
        with self._lock:
            self._hold = Hold()

    def leaving(self) -> frozenset[str]:
        """Servables that a source has let go of since the reload began and that nobody has taken over."""
        with self._lock:
            return frozenset(self._hold.leaving) if self._hold is not None else frozenset()

    def stays(self, name: str) -> None:
        """A servable that was let go of is taken over by a source that has not spoken of it yet."""
        with self._lock:
            if self._hold is not None:
                self._hold.leaving.discard(name)

    def settle(self) -> None:
        """The reload is over: labels move that still wait, and what nobody has taken over is given up."""
        with self._lock:
            hold, self._hold = self._hold or Hold(), None
            for name, labels in hold.labels.items():
                self._proposals[name] = replace(self.proposal(name), labels=labels)
            for name in sorted(hold.leaving):
                self._proposals[name] = replace(self.proposal(name), versions=())
            for name in hold.names:
                self._apply(name)

    def heard(self, change: StateChange) -> None:
        """A version came or went; looked at soon, on another thread."""
        if change.state in _TURNS:
            with self._listening:
                idle = not self._heard
                self._heard.add(change.id.name)
            if idle:
                self._around.submit(self._catch_up)

    # What people decide

    def orders(self, name: str) -> Orders:
        """What was decided about a servable."""
        return self._store.get(name)

    def decide(self, name: str, change: Callable[[Orders], Orders], *, even_if_lost: bool = False) -> bool:
        """Keeps new orders and follows them; False where they are what they were. Raises where they cannot be kept,
        and nothing changes; with `even_if_lost` they count until the engine stops, and then it raises."""
        with self._lock:
            before = self._store.get(name)
            after = change(before)
            if after == before:
                return False
            lost: TidegateError | None = None
            try:
                self._store.put(name, after)
            except TidegateError as error:
                if not even_if_lost:
                    raise
                self._store.put_in_memory(name, after)
                lost = error
            self._apply(name)
        if lost is not None:
            raise type(lost)(f"{name}: this counts now, and is forgotten when the engine stops: {lost}") from lost
        return True

    # For everybody

    def proposal(self, name: str) -> Proposal:
        """What the source of a servable wants."""
        return self._proposals.get(name, Proposal())

    def course(self, name: str) -> Course:
        """What was told last."""
        return self._told.get(name, Course())

    def serving(self, name: str) -> KnownVersion | None:
        """The version that ordinary clients get now, where it is known how to load it again."""
        return self.known(name, self._around.valves.serving(name))

    def known(self, name: str, version: int | None) -> KnownVersion | None:
        """A version that was wanted once, or None."""
        path = self._paths.get(name, {}).get(version) if version is not None else None
        return None if path is None or version is None else KnownVersion(version, path)

    def names(self) -> frozenset[str]:
        """Servables that something was proposed of or decided about."""
        with self._lock:
            return frozenset(self._proposals) | frozenset(self._store.names())

    def knows(self, name: str) -> bool:
        """Whether something was proposed of it or decided about it."""
        with self._lock:
            return name in self._proposals or self._store.knows(name)

    def refresh(self, name: str) -> None:
        """Something that counts has changed outside, such as the config."""
        with self._lock:
            self._apply(name)

    def _adopt(self, name: str, versions: Sequence[PathVersion]) -> None:
        proposal = replace(self.proposal(name), versions=tuple(versions))
        if self._hold is not None:
            labels = self._hold.labels.get(name, proposal.labels)
            self._hold.forget(name)
            proposal = replace(proposal, labels=labels)
        self._proposals[name] = proposal
        self._apply(name)

    def _apply(self, name: str) -> None:
        """Labels first: one that can move moves before its old version is given up, one that cannot holds it."""
        self._learn(name)
        told, route = self._told.get(name, Course()), self._routes.get(name, _NOWHERE)
        course = self._routed(name)
        if self._look(name):
            course = self._routed(name)
        if course.disabled != told.disabled:
            self._around.valves.set_enabled(name, not course.disabled, course.disabled)
        if course.shadow != told.shadow:
            self._around.traffic.set_shadow(name, course.shadow)
        if course.split != told.split:
            self._around.valves.set_split(name, course.split)
        freed = course.versions and self._routes.get(name, _NOWHERE) != route  # what a label held may be free to go
        if course.versions != told.versions or freed:
            self._target.set_aspired_versions(name, course.versions)
        self._told[name] = course
        if course.versions or told.versions:
            self._keep_serving(name, course)
        if not course.versions:
            self._forget(name)

    def _routed(self, name: str) -> Course:
        """What is to be, with labels and ordinary clients where it has them."""
        course = self._steered(name, self.known(name, self._serving.get(name)))
        route = (course.labels, course.followed)
        if self._routes.get(name, _NOWHERE) != route:
            self._around.traffic.set_labels(name, *route)
            self._routes[name] = route
        return course

    def _forget(self, name: str) -> None:
        """Nothing is wanted of it and nothing was decided: it is as if it had never been."""
        if self._store.get(name) == NOTHING and not self.proposal(name).labels:
            for known in (self._proposals, self._told, self._routes, self._serving, self._paths):
                known.pop(name, None)

    def _steered(self, name: str, serving: KnownVersion | None) -> Course:
        keep = self._around.keep_previous(name)
        return steer(name, self.proposal(name), self._store.get(name), serving, keep)

    def _learn(self, name: str) -> None:
        """Where versions lie: those proposed, those decided about, and the one that serves."""
        before = self._paths.get(name, {})
        serving = self._serving.get(name)
        orders = self._store.get(name)
        paths = {number: path for number, path in before.items() if number in (serving, *self.course(name).numbers)}
        held = orders.frozen.versions if orders.frozen else ()
        pinned = (orders.pinned.version,) if orders.pinned else ()
        serves = (orders.serving,) if orders.serving else ()
        instead = (blocked.instead for blocked in orders.blocked if blocked.instead is not None)
        paths.update({known.version: known.path for known in (*orders.served, *serves, *held, *pinned, *instead)})
        paths.update({v.id.version: v.payload for v in self.proposal(name).versions if v.payload is not None})
        self._paths[name] = paths

    def _look(self, name: str) -> bool:
        """Whether ordinary clients get another version than at the last look; what they got before is remembered."""
        now, before = self._around.valves.serving(name), self._serving.get(name)
        if now is None or now == before:
            return False
        self._serving[name] = now
        left = self.known(name, before)
        orders = self._store.get(name)
        if left is not None:
            self._remember(name, with_served(orders, left, now))
        elif any(known.version == now for known in orders.served):
            self._remember(name, with_served(orders, orders.served[-1], now))
        return True

    def _keep_serving(self, name: str, course: Course) -> None:
        """Where it matters what serves, such as where nobody proposes it, it has to be known after a restart."""
        serving = self.known(name, self._serving.get(name))
        matters = serving is not None and self._steered(name, None) != course
        orders, counts = self._store.get(name), serving if matters else None
        if orders.serving != counts:
            self._remember(name, replace(orders, serving=counts))

    def _remember(self, name: str, orders: Orders) -> None:
        try:
            self._store.put(name, orders)
        except TidegateError as error:
            self._store.put_in_memory(name, orders)
            _log.error("what serves now and served before is forgotten at the engine's end: %s", error)

    def _catch_up(self) -> None:
        with self._listening:
            names, self._heard = self._heard, set()
        for name in sorted(names):
            try:
                with self._lock:
                    if self._look(name):
                        self._apply(name)
            except Exception:
                _log.exception("what came or went of %s could not be followed, the next change tries again", name)
