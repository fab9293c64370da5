"""The controller of a fleet: it reads what etcd has, listens to every node, and, while it leads, decides and tells.

Several may run; the one that has the leader's key in etcd decides, and each of its writes counts only as long as it has
that. All know how every version stands, so any of them can be asked and pushed to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import (
    AlreadyExists,
    FailedPrecondition,
    ResourceExhausted,
    TidegateError,
    Unavailable,
)
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.fleet.controller.absence import Absences
from tidegate_serving.fleet.controller.counters import gathered
from tidegate_serving.fleet.controller.node_link import NodeLink
from tidegate_serving.fleet.decision.decision import Decision, Memory, decide
from tidegate_serving.fleet.decision.rollout import Seen, version_states
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.etcd.presence import Presence
from tidegate_serving.fleet.state.feed import Feed
from tidegate_serving.fleet.state.keys import LEADER, MODELS, PLACEMENT, ROUTES, WANTED, FleetKeys
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.view import FleetView, placement_bytes
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.sources.expiry import Ends, no_end
from tidegate_serving.sources.problems import SourceProblems

PROBLEM = "etcd"
LOST_SECONDS = 10.0
MOST_NODES = 1000
_TOO_MANY = "nodes"
_EMPTIED = "models"
_GONE = "is gone: its entry in etcd has ended"
_TURN_SECONDS = 0.5
_log = logging.getLogger(__name__)
_MOST_CHANGES = 120  # in one transaction: etcd takes 128
_Changes = list[tuple[str, bytes | None]]
Connect = Callable[[str], EngineConnection]


@dataclass(frozen=True, slots=True)
class _Line:
    """A node as it registered, the line to it, and since when (monotonic seconds) there is one."""

    node: Node
    link: NodeLink
    since: float


class Controller:
    """`name` is what it is called as a leader, `connect` makes a connection of a node's control address. State changes
    of the whole fleet go to `events`, what stands in the way to `problems`; while it leads `ends` hears until when
    shadows and splits are meant."""

    def __init__(
        self,
        etcd: Etcd,
        keys: FleetKeys,
        name: str,
        connect: Connect,
        seconds: int,
        events: EventBus,
        problems: SourceProblems,
        ends: Ends = no_end,
    ) -> None:
        self._ends = ends
        self._etcd = etcd
        self._keys = keys
        self._connect = connect
        self._events = events
        self._problems = problems
        self._seconds = seconds
        self._presence = Presence(etcd, keys.key(LEADER), name.encode, seconds, self._told)
        self._feed = Feed(etcd, keys.prefix, self._wake_with)
        self._wake = threading.Event()
        self._stopped = False
        self._written = self._newest = self._led_in = 0
        self._led_since = 0.0
        self._lines: dict[str, _Line] = {}
        self._absences = Absences(seconds)
        self._memory = Memory()
        self._states: dict[ServableId, StateChange] = {}
        self._expected: dict[str, int] = {}
        self._has_told = False  # what is found on nodes by then has not begun now
        self._telling = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="tidegate-fleet", daemon=True)

    def seen(self) -> dict[str, Seen]:
        """What each node says."""
        found = {node: line.link.seen() for node, line in self._lines.items()}
        return {node: one for node, one in found.items() if one is not None}

    def counters(self, servable: str) -> dict[str, float]:
        """What the nodes count of requests for a servable, of all for an empty name; see `gathered`."""
        return gathered({node: line.link for node, line in list(self._lines.items())}, servable)

    def log_paths(self) -> list[str | None]:
        """Where each node keeps its inference log: empty for none, None of one that has said nothing yet."""
        return [line.link.log_path for line in list(self._lines.values())]

    def expect(self, desired: DesiredState) -> None:
        """This was written just now: of its versions nothing from before is told any more, such as an old error."""
        with self._telling:
            self._expected[desired.servable] = desired.revision
            for version in (ServableId(desired.servable, number) for number in desired.numbers):
                before = self._states.get(version)
                if before is None or before.state is State.END:
                    self._states[version] = StateChange(version, State.START)
                    self._events.publish(self._states[version])

    def start(self) -> None:
        """Begins to read, to listen and to stand for the lead. RuntimeError where the system lacks threads, and then
        nothing has begun."""
        with ExitStack() as unless_begun:
            self._feed.start()
            unless_begun.callback(self._feed.stop)
            self._presence.start()
            unless_begun.callback(self._presence.stop)
            self._thread.start()
            unless_begun.pop_all()

    def stop(self) -> None:
        """Another controller may lead at once; nodes stay as they are."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
        self._presence.stop()
        self._feed.stop()
        for line in self._lines.values():
            line.link.end()
        for line in self._lines.values():
            line.link.join()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(_TURN_SECONDS)
            self._wake.clear()
            try:
                self._turn()
            except TidegateError as error:
                self._problems.report("", PROBLEM, error)
            except Exception:
                _log.exception("a turn of the controller failed, the next one tries again")

    def _turn(self) -> None:
        view = self._feed.view
        if view.revision == 0 or self._stopped:
            return
        if view.revision < self._newest:
            self._begin_anew()
        self._newest = view.revision
        links = {name: line.link for name, line in self._lines.items()}
        view = replace(view, nodes=self._few(self._absences.filled(view.nodes, links, time.monotonic())))
        self._listen_to(view.nodes)
        seen = self.seen()
        lost = self._lost(seen)
        lead = self._lead()
        if lead and view.revision < max(lead, self._written):
            return
        waits = seen.keys() | lost < view.nodes.keys()
        if not lead or waits or self._awaits(view, lead) or self._is_emptied(view, seen):
            self._publish(view, seen)
            return
        for name, model in view.models.items():
            self._ends(name, model.desired.shadow.until_us if model.desired.shadow else 0)
            self._ends(name, model.overrides.split.until_us if model.overrides.split else 0)
        decision = decide(view, seen, lost, self._memory, time.time())
        placed = decision.placement
        known = {name: placed.nodes[name] for name in view.placement.nodes.keys() & placed.nodes.keys()}
        self._publish(replace(view, placement=replace(placed, nodes=known)), seen)
        if self._write(view, decision, lead):
            self._memory = decision.memory
            for node, told in decision.told.items():
                self._lines[node].link.tell(lead, told, decision.overrides[node], decision.admitted)

    def _begin_anew(self) -> None:
        """etcd was restored from a backup: its revisions come a second time, with other contents."""
        _log.warning("etcd is back at an earlier revision: the fleet goes on with what it has now")
        self._written = 0
        with self._telling:
            self._expected.clear()

    def _awaits(self, view: FleetView, lead: int) -> bool:
        """Whether nodes may still come back that lost their keys as this controller lost the lead: where etcd stood
        still for longer than a lease, or lost all, each key is written again within the next lease."""
        if lead != self._led_in:
            self._led_in, self._led_since = lead, time.monotonic()
        used = {node for nodes in view.placement.nodes.values() for node in nodes}
        missing = not used <= view.nodes.keys() or not (view.models or view.routes)
        return missing and time.monotonic() < self._led_since + self._seconds

    def _is_emptied(self, view: FleetView, seen: Mapping[str, Seen]) -> bool:
        """Whether etcd has nothing of a fleet whose nodes have models: routers then go on by the routes they know,
        which any that were written now would end."""
        held = sorted({name for one in seen.values() for name in one.desired if one.wants(name)})
        if view.models or view.routes or not held:
            self._problems.settle("", _EMPTIED)
            return False
        text = (
            f"etcd has nothing of fleet {self._keys.fleet}, and its nodes have {len(held)} models, such as {held[0]}: "
            "restore etcd from a backup, until when routers go on by the routes that they know, or push every model "
            "again, as from the first push on only what was pushed is routed"
        )
        self._problems.report("", _EMPTIED, FailedPrecondition(text))
        return True

    def _few(self, nodes: Mapping[str, Node]) -> Mapping[str, Node]:
        """As many nodes as a controller listens to, as each takes threads: those that it knows, then others by name."""
        if len(nodes) <= MOST_NODES:
            self._problems.settle("", _TOO_MANY)
            return nodes
        text = (
            f"{len(nodes)} nodes are registered in etcd and {MOST_NODES} are used: split the fleet, or end the others"
        )
        self._problems.report("", _TOO_MANY, ResourceExhausted(text))
        kept = sorted(nodes, key=lambda name: (name not in self._lines, name))[:MOST_NODES]
        return {name: nodes[name] for name in kept}

    def _listen_to(self, nodes: Mapping[str, Node]) -> None:
        for gone in [name for name, line in self._lines.items() if nodes.get(name) is None]:
            self._lines.pop(gone).link.end()
            self._problems.settle("", f"node {gone}", _GONE)
        for name, node in nodes.items():
            line = self._lines.get(name)
            if line is not None and line.node.control == node.control:
                continue
            if line is not None:
                line.link.end()
            link = NodeLink(self._connect(node.control), self._wake.set, self._lead)
            self._lines[name] = _Line(node, link, time.monotonic())
            link.start()

    def _lost(self, seen: Mapping[str, Seen]) -> set[str]:
        """Nodes that nothing was ever heard of, for so long that nobody waits for them."""
        for name, line in self._lines.items():
            if problem := line.link.problem:
                self._problems.report("", f"node {name}", Unavailable(f"node {name}: {problem}"))
            else:
                self._problems.settle("", f"node {name}")
        late = time.monotonic() - LOST_SECONDS
        return {name for name, line in self._lines.items() if name not in seen and line.since < late}

    def _publish(self, view: FleetView, seen: Mapping[str, Seen]) -> None:
        """Tells what changed in how versions stand, as of now: where a copy goes, another one's older state counts."""
        with self._telling:
            states = {
                one.id: one
                for one in self._states.values()
                if one.id.name in view.unread or view.revision_of(one.id.name) < self._of(one)
            }
            for name, model in view.models.items():
                if name not in view.placement.nodes:  # nobody has decided yet where it belongs
                    states |= {one.id: one for one in self._states.values() if one.id.name == name}
                elif model.desired.revision >= self._expected.get(name, 0):
                    states |= {one.id: one for one in version_states(model, view.placement, seen)}
            for version, before in self._states.items():
                if version not in states and before.state is not State.END:
                    states[version] = StateChange(version, State.END)
            before_all, self._states = self._states, states
            for version, change in states.items():
                was = before_all.get(version)
                if was is not None and _kind(was) == _kind(change):
                    continue
                # A look may see the write of a push before whoever pushed has said what to expect.
                if self._has_told and change.state is State.LOADING and (was is None or was.state is State.END):
                    self._events.publish(StateChange(version, State.START))
                self._events.publish(replace(change, at_us=time.time_ns() // 1000) if self._has_told else change)
            self._has_told = True

    def _of(self, change: StateChange) -> int:
        return self._expected.get(change.id.name, 0)

    def _write(self, view: FleetView, decision: Decision, lead: int) -> bool:
        """Writes what is decided, if it is news; False where somebody else wrote or leads meanwhile.

        It goes in pieces that etcd takes, places and routes first: a wish is over once it is placed, a model forgotten
        once nothing is routed to it, and nodes are told when all is written."""
        texts = {PLACEMENT: placement_bytes(decision.placement), ROUTES: decision.routes.to_bytes()}
        had = {PLACEMENT: placement_bytes(view.placement), ROUTES: view.routes}
        first: _Changes = [(key, text) for key, text in texts.items() if text != had[key]]
        rest: _Changes = [(MODELS + one, model.to_bytes()) for one, model in decision.models.items()]
        rest = [change for change in rest if change[0].removeprefix(MODELS) not in decision.gone]
        rest += [(MODELS + name, None) for name in decision.gone]
        rest += [(WANTED + name, None) for name in decision.served]
        for piece in (first, *(rest[at : at + _MOST_CHANGES] for at in range(0, len(rest), _MOST_CHANGES))):
            if piece and not self._write_piece(piece, view, lead):
                return False
        return True

    def _write_piece(self, piece: _Changes, view: FleetView, lead: int) -> bool:
        """Writes some keys together, and deletes those without a text."""
        unchanged = {self._keys.key(key): view.revisions.get(key, 0) for key, _ in piece}
        revision = self._etcd.commit(
            {self._keys.key(LEADER): lead, **unchanged},
            {self._keys.key(key): text for key, text in piece if text is not None},
            [self._keys.key(key) for key, text in piece if text is None],
        )
        if revision is not None:
            self._written = revision
        return revision is not None

    def _lead(self) -> int:
        return self._presence.revision

    def _wake_with(self, error: TidegateError | None) -> None:
        if error is None:
            self._problems.settle("", PROBLEM)
        else:
            self._problems.report("", PROBLEM, error)
        self._wake.set()

    def _told(self, error: TidegateError | None) -> None:
        if error is not None and not isinstance(error, AlreadyExists):  # another controller leads: as it should be
            self._problems.report("", PROBLEM, error)


def _kind(change: StateChange) -> tuple[State, str, str]:
    return change.state, change.error_code, change.error_message
