"""What the controller's line to a node says of it, with a node that is played."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.control_client import ControlClient
from tidegate_serving.fleet.controller.node_link import NodeLink


class PlayedClient(ControlClient):
    """Of a node that takes what it is told once it `answers`."""

    answers = False
    admitted: Collection[str] = ()

    def set_desired_state(
        self,
        desired: DesiredState,
        expected_revision: int | None = None,
        lead: int | None = None,
        admitted: Collection[str] = (),
    ) -> int:
        if not self.answers:
            raise Unavailable("the node is away")
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
