"""The controller's line to one node: what the node says over its control port, and what it is told there.

One thread listens to its states, another tells it the overrides which it is to obey, and a third one desired states
through its RPC Source, one servable after the other, as a push takes as long as its files do.
A node that does not answer is asked again every second; what it refuses is remembered, and told again after a while.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.contract.servable import ServableId, StateChange
from tidegate_serving.control.overrides import Overrides
from tidegate_serving.control.status import OverrideStatus
from tidegate_serving.control.status_report import in_words
from tidegate_serving.control_client import ControlClient, ServableStatus
from tidegate_serving.fleet.decision.rollout import Seen
from tidegate_serving.sources.rpc.source import NAME as RPC_SOURCE
from tidegate_serving.wire_errors import NotReached

_AGAIN_SECONDS = 1.0
_REFUSED_SECONDS = 30.0
_ASKED_SECONDS = 1.0
_Telling = Callable[[ControlClient], None]


class NodeLink:
    """`changed` is called on a thread of the link after each change of what it has seen. `lead` is the revision at
    which this controller took the lead, 0 while it does not lead: nothing is told then."""

    def __init__(self, connection: EngineConnection, changed: Callable[[], None], lead: Callable[[], int]) -> None:
        self._connection = connection
        self._changed = changed
        self._lead = lead
        self._lock = threading.Condition()
        self._stopped = False
        self._known = self._doubted = False
        self._desired: dict[str, DesiredState] = {}
        self._states: dict[ServableId, StateChange] = {}
        self._refused: dict[str, tuple[DesiredState, TidegateError, float]] = {}
        self._disobeyed: dict[str, tuple[Overrides, float]] = {}
        self._heard: dict[str, int] = {}
        self._told: Mapping[str, DesiredState] = {}
        self._overrides: Mapping[str, Overrides] = {}
        self._admitted: Collection[str] = ()
        self._decided_in = self._read_in = 0
        self._obeyed: dict[str, tuple[OverrideStatus, ...]] = {}
        self._problem = ""
        self._log_path: str | None = None
        self._listening: ControlClient | None = None
        runs = (
            self._listen,
            functools.partial(self._tell_all, self._next_override),
            functools.partial(self._tell_all, self._next_push),
        )
        self._threads = [threading.Thread(target=run, name="tidegate-node-link", daemon=True) for run in runs]

    def start(self) -> None:
        """Begins to listen."""
        for thread in self._threads:
            thread.start()

    def seen(self) -> Seen | None:
        """What the node said last, None before it said anything."""
        with self._lock:
            if not self._known:
                return None
            refused = {name: error for name, (_, error, _) in self._refused.items()}
            overridden = frozenset(name for name, obeyed in self._obeyed.items() if obeyed)
            return Seen(dict(self._desired), dict(self._states), refused, dict(self._heard), overridden)

    @property
    def log_path(self) -> str | None:
        """Where the node keeps its inference log, empty for none; None before it said anything."""
        return self._log_path

    def counters(self, servable: str, timeout: float) -> Mapping[str, float]:
        """What the node's data plane counted of a servable, of all for an empty name. Raises Unavailable or
        DeadlinePassed for a node that does not answer within `timeout` seconds."""
        with ControlClient(self._connection) as client:
            return client.status(servable, timeout).counters

    @property
    def problem(self) -> str:
        """Why the node does not answer, empty where it does."""
        return self._problem

    def tell(
        self,
        lead: int,
        told: Mapping[str, DesiredState],
        overrides: Mapping[str, Overrides],
        admitted: Collection[str] = (),
    ) -> None:
        """These desired states are what the node is to have, and these overrides what it is to obey; servables that are
        not among them stay as they are. `admitted` are digests of manifests that nodes have admitted. It counts
        for as long as the lead in which it was decided."""
        with self._lock:
            self._decided_in, self._told, self._overrides = lead, told, overrides
            self._admitted = admitted
            self._lock.notify_all()

    def doubt(self) -> None:
        """Has the node asked whether it is there: `problem` says it soon where it does not answer."""
        with self._lock:
            self._doubted = True
            self._lock.notify_all()

    def end(self) -> None:
        """Has the line end, and waits for nothing; the node stays as it is."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
            listening = self._listening
        if listening is not None:
            listening.close()

    def join(self) -> None:
        """Waits until a line that was told to end has ended."""
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        while not self._stopped:
            try:
                with ControlClient(self._connection) as client:
                    with self._lock:
                        self._listening = None if self._stopped else client
                    self._read_all(client)
                    for change in client.watch():
                        self._note(change)
                    raise Unavailable(f"node at {self._connection} ended a watch")
            except TidegateError as error:
                self._problem = error.message
            self._pause(_AGAIN_SECONDS)

    def _read_all(self, client: ControlClient) -> None:
        """What the node is now, in place of what it was before."""
        status = client.status()
        servables = status.servables
        with self._lock:
            self._log_path = status.log_path
            self._states = {change.id: change for one in servables for change in _changes(one)}
            self._take_told(servables)
            self._known, self._problem = True, ""
            self._lock.notify_all()
        self._changed()

    def _read_told(self, client: ControlClient, lead: int) -> None:
        """What the node was told, maybe by another leader; how its versions stand is heard of anyway."""
        try:
            servables = client.status().servables
        except TidegateError as error:
            self._problem = error.message
            self._pause(_AGAIN_SECONDS)
            return
        with self._lock:
            self._take_told(servables)
            self._read_in = lead
            self._lock.notify_all()
        self._changed()

    def _take_told(self, servables: Sequence[ServableStatus]) -> None:
        self._desired = {one.servable: one.desired for one in servables if one.source in ("", RPC_SOURCE)}
        self._obeyed = {one.servable: one.overrides for one in servables}
        self._refused.clear()
        self._disobeyed.clear()
        self._heard.clear()

    def _note(self, change: StateChange) -> None:
        with self._lock:
            if self._states.get(change.id) == change:
                return
            self._states[change.id] = change
        self._changed()

    def _tell_all(self, next_one: Callable[[], _Telling | None]) -> None:
        with ControlClient(self._connection) as client:
            while not self._stopped:
                with self._lock:
                    found = next_one()
                    if found is None:
                        self._lock.wait(_REFUSED_SECONDS if not self._refused else _AGAIN_SECONDS)
                        continue
                found(client)

    def _next_override(self) -> _Telling | None:
        """What the node does not obey yet, after it was asked what others told it before this lead."""
        if self._doubted and not self._stopped:
            return self._ask
        if not self._may_tell():
            return None
        if self._read_in != self._decided_in:
            return functools.partial(self._read_told, lead=self._decided_in)
        for name, overrides in self._overrides.items():
            wanted = self._told.get(name, DesiredState(name))
            if not self._obeys(name) and not self._disobeyed_lately(name, overrides):
                return functools.partial(self._override, wanted=wanted, overrides=overrides, lead=self._decided_in)
        return None

    def _next_push(self) -> _Telling | None:
        """What the node does not have yet, of models whose overrides it obeys."""
        if not self._may_tell() or self._read_in != self._decided_in:
            return None
        for name, wanted in self._told.items():
            if not self._obeys(name) or self._rests(wanted):
                continue
            if not _same(self._desired.get(name, DesiredState(name)), wanted) or self._is_anew(wanted):
                return functools.partial(self._tell, wanted=wanted, lead=self._decided_in)
        return None

    def _may_tell(self) -> bool:
        return self._known and not self._stopped and bool(self._decided_in) and self._decided_in == self._lead()

    def _disobeyed_lately(self, name: str, overrides: Overrides) -> bool:
        """Whether the node refused these a short while ago; what it refused of the model's versions does not count."""
        refused = self._disobeyed.get(name)
        return refused is not None and refused[0] == overrides and time.monotonic() < refused[1]

    def _rests(self, wanted: DesiredState) -> bool:
        """Whether the node refused this a short while ago."""
        refused = self._refused.get(wanted.servable)
        return refused is not None and _asked(refused[0], wanted) and time.monotonic() < refused[2]

    def _ask(self, client: ControlClient) -> None:
        """Whether the node is there; `problem` says why it is not."""
        self._doubted = False
        try:
            client.status(timeout=_ASKED_SECONDS)
        except TidegateError as error:
            self._problem = error.message
        self._changed()

    def _obeys(self, name: str) -> bool:
        wanted = self._overrides.get(name)
        return wanted is None or tuple(in_words(wanted)) == self._obeyed.get(name, ())

    def _is_anew(self, wanted: DesiredState) -> bool:
        """Whether somebody asked for the same again since it was told: what failed is then tried again."""
        heard = self._heard.get(wanted.servable)
        return heard is not None and heard != wanted.revision and bool(wanted.versions)

    def _override(self, client: ControlClient, wanted: DesiredState, overrides: Overrides, lead: int) -> None:
        name, why = wanted.servable, "so it was decided for the fleet"
        try:
            client.replace_overrides(name, overrides, lead=lead, requested_by="fleet", reason=why)
        except TidegateError as error:
            if self._note_error(wanted, error):
                self._disobeyed[name] = overrides, time.monotonic() + _REFUSED_SECONDS
        else:
            with self._lock:
                self._problem = ""
                self._obeyed[name] = tuple(in_words(overrides))
                if self._disobeyed.pop(name, None):
                    self._refused.pop(name, None)
                self._lock.notify_all()
        self._changed()

    def _note_error(self, wanted: DesiredState, error: TidegateError) -> bool:
        """Whether the node refused what it was told of a model, maybe for want of something else, such as the model's
        object store; else it was not reached."""
        if isinstance(error, NotReached):
            self._problem = error.message
            self._pause(_AGAIN_SECONDS)
            return False
        with self._lock:
            self._refused[wanted.servable] = (wanted, error, time.monotonic() + _REFUSED_SECONDS)
            self._heard[wanted.servable] = wanted.revision
        return True

    def _tell(self, client: ControlClient, wanted: DesiredState, lead: int) -> None:
        try:
            admitted = {one.manifest_digest for one in wanted.versions}.intersection(self._admitted)
            client.set_desired_state(wanted, lead=lead, admitted=admitted)
        except TidegateError as error:
            self._note_error(wanted, error)
        else:
            with self._lock:
                self._problem = ""
                self._desired[wanted.servable] = wanted
                self._refused.pop(wanted.servable, None)
                if self._is_anew(wanted):
                    for change in [one for one in self._states.values() if one.id.name == wanted.servable]:
                        if change.error_code:
                            del self._states[change.id]
                self._heard[wanted.servable] = wanted.revision
        self._changed()

    def _pause(self, seconds: float) -> None:
        with self._lock:
            self._lock.wait_for(lambda: self._stopped, seconds)


def _changes(servable: ServableStatus) -> Iterator[StateChange]:
    for one in servable.versions:
        version = ServableId(servable.servable, one.version)
        yield StateChange(version, one.state, one.error_code, one.error_message, one.since_us)


def _same(one: DesiredState, other: DesiredState) -> bool:
    """Whether a node that has one has the other: revision, time and who asked do not count."""
    return _shape(one) == _shape(other)


def _asked(before: DesiredState, now: DesiredState) -> bool:
    """Whether it is the same, and nobody asked for it again."""
    return before.revision == now.revision and _same(before, now)


def _shape(desired: DesiredState) -> object:
    versions = sorted((one.version, one.manifest_digest) for one in desired.versions)
    return versions, dict(desired.labels), desired.shadow, desired.keep_previous
