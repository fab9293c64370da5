"""What the controller's line to a node says of it, with a node that is played."""

from __future__ import annotations

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.control_client import ControlClient
from tidegate_serving.fleet.controller.node_link import NodeLink


class PlayedClient(ControlClient):
    """Of a node that takes what it is told once it `answers`."""

    answers = False

    def set_desired_state(
        self, desired: DesiredState, expected_revision: int | None = None, lead: int | None = None
    ) -> int:
        if not self.answers:
            raise Unavailable("the node is away")
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
