"""What must hold of an engine's lifecycle after every step of a history, and once everything has come to rest.

A life calls in at each event; what is wrong raises AssertionError with names and numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.lifecycle.plane_model import STABLE, ModelPicture

from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.control.routing import Routing
from tidegate_serving.journal.entry import Kind

if TYPE_CHECKING:
    from tests.support.histories.world import Life, Temper, WorldLoader

NAMES = ("pushed", "watched", "single")
_NEXT = {
    None: {State.START},
    State.START: {State.LOADING, State.END},
    State.LOADING: {State.AVAILABLE, State.END},
    State.AVAILABLE: {State.UNLOADING},
    State.UNLOADING: {State.END},
    State.END: {State.START},
}


class Checks:
    """Of one life."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self.changes: list[StateChange] = []
        self.states: dict[ServableId, State] = {}
        self.attempts: dict[ServableId, int] = {}
        self._moves: list[tuple[str, int | None, int | None, frozenset[int]]] = []
        self._reserved: dict[ServableId, int] = {}
        self._faults: list[str] = []

    # While things happen

    def heard(self, change: StateChange) -> None:
        before, self.states[change.id] = self.states.get(change.id), change.state
        self.changes.append(change)
        if change.state not in _NEXT[before]:
            self._wrong(f"{change.id} went from {before} to {change.state}")
        if self._life.stopping:
            return
        if change.state is State.AVAILABLE and change.id.version not in self._published(change.id.name):
            self._wrong(f"{change.id} is AVAILABLE before it can be looked up")
        if change.state is State.UNLOADING and change.id.version not in self._published(change.id.name):
            self._wrong(f"{change.id} was hidden before it is UNLOADING")
        if change.state in (State.END, State.START) and change.id.version in self._published(change.id.name):
            self._wrong(f"{change.id} is {change.state} and can be looked up")

    def load_begins(self, loader: WorldLoader) -> None:
        one = loader.id
        self.attempts[one] = self.attempts.get(one, 0) + 1
        if self._life.stopping:
            return
        wish = self._life.told.aspired.get(one.name, {})
        if one.version not in wish:
            self._wrong(f"{one} is loaded, and nobody wants it: {sorted(wish)}")
        others = [other for other in self._life.loaders if other.id == one and other is not loader and other.loaded]
        if others or loader.loaded:
            self._wrong(f"{one} is loaded twice")
        if one.name == "single":
            beside = [str(o.id) for o in self._life.loaders if o.id.name == one.name and o.cost and o is not loader]
            if beside:
                self._wrong(f"{one} is loaded beside {beside} although memory comes first")

    def load_failed(self, loader: WorldLoader) -> None:
        loader.cost = 0

    def unload_begins(self, loader: WorldLoader) -> None:
        if not loader.loaded:
            self._wrong(f"{loader.id} is unloaded, and was not loaded")
        if loader.id.version in self._published(loader.id.name) and not self._life.stopping:
            self._wrong(f"{loader.id} is unloaded while requests can reach it")
        if self._life.plane.handles[(loader.id.name, loader.id.version)] and not self._life.stopping:
            self._wrong(f"{loader.id} is unloaded while a handle is out")

    def plane_changed(self, name: str, before: ModelPicture, after: ModelPicture) -> None:
        if self._life.stopping:
            return
        if before.versions and not after.versions and name != "single" and self._life.told.aspired.get(name):
            self._wrong(
                f"the last version of {name} {before} left, and {sorted(self._life.told.aspired[name])} is wanted"
            )
        for number in after.versions - before.versions:
            self._let_in(ServableId(name, number))
        if before.ordinary != after.ordinary and before.off is None and after.off is None and not after.split:
            self._moves.append((name, before.ordinary, after.ordinary, after.versions))

    def _let_in(self, one: ServableId) -> None:
        wanted = self._life.told.aspired.get(one.name, {}).get(one.version)
        loaded = next((loader.path for loader in self._life.loaders if loader.id == one and loader.loaded), None)
        if wanted is None or wanted.payload is None or loaded is None:
            self._wrong(f"{one} is let in, and nobody wants it: {wanted}, {loaded}")
        elif wanted.payload.path.directory != loaded.directory:
            self._wrong(f"{one} is let in from {loaded}, and wanted from {wanted.payload.path}")

    # After a step

    def after_step(self, before: dict[str, Routing]) -> None:
        self._check_moves(before)
        self._check_states()
        self._check_budget()
        self.tell_faults()

    def _check_moves(self, before: dict[str, Routing]) -> None:
        moves, self._moves = self._moves, []
        for name, left, to, published in moves:
            routings = (before.get(name, Routing()), self._life.reconciler.routing(name))
            if not any(self._may_go(name, left, to, routing, published) for routing in routings):
                shown = [(sorted(c.numbers), dict(c.labels)) for c in routings]
                self._wrong(f"ordinary clients of {name} went from {left} to {to} of {sorted(published)}: {shown}")

    def _may_go(self, name: str, left: int | None, to: int | None, routing: Routing, published: frozenset[int]) -> bool:
        if to is None:
            lost = STABLE in routing.labels and routing.labels[STABLE] not in routing.numbers
            return bool(routing.traffic.disabled) or lost or not routing.numbers or name == "single"
        if STABLE in routing.labels:
            return to == routing.labels[STABLE]
        wanted = (routing.numbers - routing.kept) & published
        return to == max(wanted) if wanted else left not in published

    def _check_states(self) -> None:
        life = self._life
        for one, state in self.states.items():
            noted = life.monitor.state(one)
            if (noted is None or noted.state is not state) and state is not State.END:
                self._wrong(f"the monitor says {noted} of {one}, which is {state}")
            there = one.version in self._published(one.name)
            if state is State.AVAILABLE and not there and not life.stopping:
                self._wrong(f"{one} is AVAILABLE and cannot be looked up")
            if there and state not in (State.AVAILABLE, State.LOADING):
                self._wrong(f"{one} is {state} and can be looked up")

    def _check_budget(self) -> None:
        life, limit = self._life, self._life.world.limit
        reserved = {one: life.manager.reserved(one).get("ram", 0) for one in self.states}
        new = [one for one, count in reserved.items() if count and not self._reserved.get(one)]
        beyond = sum(max(0, loader.cost - loader.need) for loader in life.loaders)  # measured, once it was loaded
        if limit and new and sum(reserved.values()) - beyond > limit:
            self._wrong(f"{limit} bytes are reserved for {reserved}")
        self._reserved = reserved
        costs: dict[ServableId, int] = {}
        for loader in life.loaders:
            if loader.cost:
                costs[loader.id] = costs.get(loader.id, 0) + loader.cost
        for one, cost in costs.items():
            if reserved.get(one, 0) < cost and self.states.get(one) is State.AVAILABLE:
                self._wrong(f"{one} takes {cost} and has reserved {reserved.get(one, 0)}")
        for one, count in reserved.items():
            if count and self.states[one] is State.END:
                self._wrong(f"{one} has ended and keeps {count} reserved")

    # Once everything has come to rest

    def at_rest(self) -> None:
        """Every wanted version that can be loaded is there, and nothing else but what stands in for another."""
        for name in NAMES:
            self._check_followed(name)
            self._check_there(name)
            self._check_traffic(name)
        self._check_loaders()
        self.tell_faults()

    def _check_followed(self, name: str) -> None:
        """What the reconciler told is what it would tell now, and what the manager was told."""
        life = self._life
        told, applied = life.told.calls, life.plane.applied
        routing = life.reconciler.routing(name)
        if set(life.told.aspired.get(name, {})) != routing.numbers:
            self._wrong(f"{name} is to have {sorted(routing.numbers)}, and {list(life.told.aspired[name])} was told")
        overrides = life.reconciler.overrides(name)
        life.reconciler.refresh(name)
        if (life.told.calls, life.plane.applied, life.reconciler.overrides(name)) != (told, applied, overrides):
            self._wrong(f"{name} was not followed: {routing} became {life.reconciler.routing(name)}")

    def _check_there(self, name: str) -> None:
        wish = self._life.told.aspired.get(name, {})
        published = self._published(name)
        able = {number for number in wish if self.able(name, number)}
        for number in sorted(able - published):
            self._check_short(ServableId(name, number))
        overrides = self._life.reconciler.overrides(name)
        for number, version in wish.items():
            if version.payload is not None and overrides.block_of(version.payload.path) is not None:
                self._wrong(f"{name}:{number} is blocked, and wanted")
        if published - set(wish):
            self._check_leftover(name, published, able)

    def _check_short(self, one: ServableId) -> None:
        """Only memory can be what a version lacks."""
        life = self._life
        noted = life.monitor.state(one)
        size = self._temper(one).size
        used = sum(life.manager.reserved(other).get("ram", 0) for other in self.states)
        if not life.world.limit or used + size <= life.world.limit:
            self._wrong(f"{one} is wanted, can be loaded, and is {noted}: {used} of {life.world.limit} are reserved")
        if noted is None or noted.error_code != "resource_exhausted":
            self._wrong(f"{one} lacks memory, and {noted} is said")

    def _check_leftover(self, name: str, published: frozenset[int], able: set[int]) -> None:
        wish, picture = self._life.told.aspired.get(name, {}), self._life.plane.of(name)
        routing = self._life.reconciler.routing(name)
        left = published - set(wish)
        for number in sorted(left):
            waits = [
                label
                for label, target in picture.labels.items()
                if target == number and routing.labels.get(label, number) not in published
            ]
            alone = len(left) == 1 and wish and not published & (routing.numbers - routing.kept) and name != "single"
            if not ((waits and wish) or alone):
                self._wrong(f"{name}:{number} is there and nobody wants it: {sorted(wish)}, {picture}")

    def _check_traffic(self, name: str) -> None:
        life, picture = self._life, self._life.plane.of(name)
        routing, published = life.reconciler.routing(name), self._published(name)
        if bool(picture.off) is not bool(routing.traffic.disabled):
            self._wrong(f"{name} is off: {picture.off!r}, and is to be: {routing.traffic.disabled!r}")
        for label, number in routing.labels.items():
            if number in published and picture.labels.get(label) != number:
                self._wrong(f"label {label} of {name} is to be on {number}: {picture}")
        if set(picture.labels) - set(routing.labels):
            self._wrong(f"{name} has labels that nobody wants: {picture.labels}")
        wanted = (routing.numbers - routing.kept) & published
        if not routing.traffic.disabled and STABLE not in routing.labels and wanted and picture.ordinary != max(wanted):
            self._wrong(f"ordinary clients of {name} get {picture.ordinary}, {sorted(wanted)} are there: {picture}")
        split = life.reconciler.overrides(name).split
        shares = {} if split is None or not published else dict(split.split.shares)
        if dict(picture.split) != shares:
            self._wrong(f"{name} is split {picture.split}, and is to be {shares}")
        desired = life.reconciler.desired(name).shadow
        shadow = desired.version if desired and desired.version in published & routing.numbers else None
        if picture.shadow != shadow:
            self._wrong(f"{name} is shadowed to {picture.shadow}, and is to be to {shadow}")

    def _check_loaders(self) -> None:
        for loader in self._life.loaders:
            there = self.states.get(loader.id) is State.AVAILABLE
            if loader.loaded and not there:
                self._wrong(f"{loader.id} is still loaded, and is {self.states.get(loader.id)}")
        for one, state in self.states.items():
            if state is State.AVAILABLE and sum(o.loaded for o in self._life.loaders if o.id == one) != 1:
                self._wrong(f"{one} is AVAILABLE, and not exactly one of its loaders is loaded")
            if state not in (State.AVAILABLE, State.END):
                self._wrong(f"{one} rests in {state}")

    def able(self, name: str, number: int) -> bool:
        """Whether a wanted version can be loaded."""
        wanted = self._life.told.aspired[name][number]
        return wanted.error is None and self._temper(wanted.id).loads

    def _temper(self, one: ServableId) -> Temper:
        loader = self._life.told.aspired[one.name][one.version].payload
        assert loader is not None
        return loader.temper

    def stopped(self) -> None:
        """Nothing is left loaded."""
        left = [str(loader.id) for loader in self._life.loaders if loader.loaded]
        if left:
            self._wrong(f"the engine stopped and left {left} loaded")
        going = {str(one): state for one, state in self.states.items() if state is not State.END}
        if going:
            self._wrong(f"the engine stopped and left {going}")
        self.tell_faults()

    def journal_agrees(self) -> None:
        """The journal tells every change of state, in order."""
        told = [(e.servable, e.version, e.action) for e in self._life.journal.read() if e.kind is Kind.STATE]
        happened = [(change.id.name, change.id.version, change.state.name) for change in self.changes]
        if told != happened:
            self._wrong(f"the journal tells {told}, and what happened is {happened}")
        self.tell_faults()

    def _published(self, name: str) -> frozenset[int]:
        return self._life.plane.of(name).versions

    def _wrong(self, text: str) -> None:
        """Kept until the step is over: whoever called may catch what is raised."""
        self._faults.append(text)

    def tell_faults(self) -> None:
        """Raises what was wrong so far."""
        assert not self._faults, "\n".join(self._faults)
