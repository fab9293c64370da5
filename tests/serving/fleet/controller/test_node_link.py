"""What the controller's line to a node says of it, with a node that is played."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.control.overrides import Note, Outcome, Overrides
from tidegate_serving.control.status import EngineStatus
from tidegate_serving.control_client import ControlClient
from tidegate_serving.fleet.controller.node_link import NodeLink
from tidegate_serving.wire_errors import NotReached


def state(name: str) -> DesiredState:
    return DesiredState(name, (VersionReference(1, Path(f"/{name}/1"), "d"),), revision=5)


class PlayedClient(ControlClient):
    """Of a node that takes what it is told once it `answers`."""

    answers = broken = False
    admitted: Collection[str] = ()

    def status(self, servable: str = "", timeout: float = 1.0) -> EngineStatus:
        if not self.answers:
            raise NotReached("the node is away")
        return EngineStatus((), "", "")

    def replace_overrides(
        self, servable: str, overrides: Overrides, *, lead: int, requested_by: str, reason: str = ""
    ) -> Outcome:
        if self.broken:
            self.broken = False
            raise NotReached("the connection broke")
        return Outcome("", True)

    def set_desired_state(
        self,
        desired: DesiredState,
        expected_revision: int | None = None,
        lead: int | None = None,
        admitted: Collection[str] = (),
    ) -> int:
        if not self.answers:
            raise NotReached("the node is away")
        if desired.servable == "bad":
            raise Unavailable("the store is away")
        self.admitted = admitted
        return 1


def test_a_node_that_takes_what_it_is_told_has_no_problem_any_more() -> None:
    connection = EngineConnection.of("127.0.0.1:9")
    link = NodeLink(connection, lambda: None, lambda: 1)
    link.end()
    with PlayedClient(connection) as client:
        link._tell(client, DesiredState("m"), lead=1)
        assert link.problem == "the node is away"
        client.answers = True
        link._tell(client, DesiredState("m"), lead=1)
    assert not link.problem


def test_a_node_is_told_which_of_its_versions_others_have_admitted() -> None:
    connection = EngineConnection.of("127.0.0.1:9")
    link = NodeLink(connection, lambda: None, lambda: 1)
    link.end()
    wanted = DesiredState("m", tuple(VersionReference(number, Path("/m"), f"digest {number}") for number in (1, 2)))
    link.tell(1, {"m": wanted}, {}, {"digest 1", "digest 3"})
    with PlayedClient(connection) as client:
        client.answers = True
        link._tell(client, wanted, lead=1)
        assert client.admitted == {"digest 1"}


def test_a_model_whose_store_is_away_is_refused_alone_and_the_next_one_is_told() -> None:
    connection = EngineConnection.of("127.0.0.1:9")
    link, bad, good = NodeLink(connection, lambda: None, lambda: 1), state("bad"), state("good")
    link._known, link._read_in = True, 1
    with PlayedClient(connection) as client:
        client.answers = True
        link.tell(1, {"bad": bad, "good": good}, {})
        for _ in range(2):
            push = link._next_push()
            assert push is not None
            push(client)
        assert link._next_push() is None
    told = link.seen()
    assert told is not None
    assert (set(told.refused), set(told.desired), link.problem) == ({"bad"}, {"good"}, "")


def test_a_kill_switch_waits_for_no_push_and_no_version_comes_before_it() -> None:
    connection = EngineConnection.of("127.0.0.1:9")
    link, off = NodeLink(connection, lambda: None, lambda: 1), Overrides(disabled=Note("anna", "it is late", 1))
    link._known, link._read_in = True, 1
    with PlayedClient(connection) as client:
        link.tell(1, {"m": state("m")}, {"m": off})
        assert link._next_push() is None
        override = link._next_override()
        assert override is not None
        override(client)
        assert link._next_override() is None
        assert link._next_push() is not None
    assert len(link._threads) == 3


def test_a_kill_switch_is_told_at_once_where_a_push_was_refused_or_the_connection_broke() -> None:
    connection = EngineConnection.of("127.0.0.1:9")
    link, off = NodeLink(connection, lambda: None, lambda: 1), Overrides(disabled=Note("anna", "it is late", 1))
    link._known, link._read_in = True, 1
    with PlayedClient(connection) as client:
        client.answers = True
        link.tell(1, {"bad": state("bad")}, {"bad": Overrides()})
        push = link._next_push()
        assert push is not None
        push(client)
        link.tell(1, {"bad": state("bad")}, {"bad": off})
        for client.broken in (True, False):
            override = link._next_override()
            assert override is not None
            override(client)
        assert link._next_override() is None
