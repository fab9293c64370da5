"""More changes in one turn than etcd takes in one transaction, written into a real one."""

from __future__ import annotations

from tests.support.neighbours.etcd import etcd_process

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.fleet.controller.controller import Controller
from tidegate_serving.fleet.decision.decision import Decision
from tidegate_serving.fleet.state.keys import LEADER, MODELS, FleetKeys
from tidegate_serving.fleet.state.model import FleetModel
from tidegate_serving.fleet.state.placement import Placement
from tidegate_serving.fleet.state.routes import Routes
from tidegate_serving.fleet.state.view import FleetView
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.sources.problems import SourceProblems


def test_any_number_of_models_changes_in_one_turn_as_long_as_who_writes_leads() -> None:
    keys, nobody = FleetKeys("f"), EngineConnection.of("127.0.0.1:9")
    models = {f"m{one}": FleetModel(DesiredState(f"m{one}")) for one in range(300)}
    decision = Decision(Placement(), Routes(), {}, {}, models=models, gone=frozenset({"m0"}))
    with etcd_process() as server:
        etcd = server.client()
        found = Controller(etcd, keys, "c", lambda _: nobody, 5, EventBus(), SourceProblems())
        lead = etcd.commit({}, {keys.key(LEADER): b"c"})
        assert lead
        assert not found._write(FleetView(), decision, lead - 1)
        assert found._write(FleetView(), decision, lead)
        assert len(etcd.read(keys.key(MODELS)).entries) == 299
        etcd.close()
