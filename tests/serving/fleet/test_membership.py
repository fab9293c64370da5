"""An engine as a node: real processes and a real etcd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess, free_port
from tests.support.eventually import eventually
from tests.support.models.versions import publish
from tests.support.neighbours.etcd import EtcdProcess, etcd_process

from tidegate_serving.config import EngineConfig, FleetConfig
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.fleet.membership import node_of
from tidegate_serving.fleet.state.keys import LEADER, NODES, ROUTES, FleetKeys
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.runtime.running_engine import EngineAddresses

CONNECTED = "tidegate_fleet_connected"


@pytest.fixture
def server() -> Iterator[EtcdProcess]:
    with etcd_process() as running:
        yield running


def nodes(server: EtcdProcess, fleet: str) -> dict[str, Node]:
    etcd = server.client()
    found = etcd.read(FleetKeys(fleet).prefix).below(NODES)
    etcd.close()
    return {name: Node.from_bytes(name, one.value) for name, one in found.items()}


def node(folder: Path, server: EtcdProcess, **fleet: object) -> EngineProcess:
    values = {"etcd": server.address, "name": "f", "node": "a", "lease_seconds": 2, **fleet}
    return EngineProcess(folder, allow_unverified=True, roots=[folder], isolation="engine", fleet=values)


def test_an_engine_is_a_node_from_start_to_stop(tmp_path: Path, server: EtcdProcess) -> None:
    with node(tmp_path, server, capacity_bytes=1000) as engine:
        found = eventually(lambda: nodes(server, "f").get("a"))
        where = engine.addresses
        assert found == Node("a", where["grpc"], where["rest"], where["control"], 1000)
        assert engine.stop() == 0
    assert nodes(server, "f") == {}


def test_a_killed_engine_is_no_node_any_more_and_one_of_its_name_takes_its_place(
    tmp_path: Path, server: EtcdProcess
) -> None:
    with node(tmp_path / "one", server) as killed:
        eventually(lambda: nodes(server, "f"))
        assert killed.process is not None
        os.kill(killed.process.pid, signal.SIGKILL)
        killed.wait()
        with node(tmp_path / "two", server) as other:
            eventually(lambda: nodes(server, "f").get("a", Node("", "", "", "", 0)).grpc == other.addresses["grpc"])


def test_without_etcd_an_engine_serves_what_it_has_and_says_so_until_it_is_back(
    tmp_path: Path, server: EtcdProcess
) -> None:
    with node(tmp_path, server) as engine, engine.control() as control, engine.client() as client:
        push_and_wait(control, publish(tmp_path, "half", 1))
        eventually(lambda: control.status().counters.get(CONNECTED) == 1)
        server.kill()
        problem = eventually(lambda: control.status().problems)[0]
        assert (problem.source, problem.error_code) == ("fleet", "unavailable")
        assert f"etcd at {server.address} does not answer" in problem.error_message
        assert control.status().counters[CONNECTED] == 0
        assert client.predict("half", {"x": np.array([2.0], np.float32)})["y"].tolist() == [3.0]
        server.start()
        eventually(lambda: not control.status().problems)
        assert "a" in nodes(server, "f")


def test_an_engine_that_never_saw_etcd_is_ready_all_the_same(tmp_path: Path) -> None:
    with EngineProcess(tmp_path, fleet={"etcd": f"127.0.0.1:{free_port()}"}) as engine, engine.control() as control:
        eventually(lambda: control.status().problems)
        with urllib.request.urlopen(f"http://{engine.addresses['rest']}/v2/health/ready") as answer:
            assert answer.status == 200


def test_a_node_that_is_told_to_stop_waits_until_no_route_leads_to_it(tmp_path: Path, server: EtcdProcess) -> None:
    keys = FleetKeys("f")
    with node(tmp_path, server, leave_seconds=600) as engine:
        eventually(lambda: nodes(server, "f"))
        etcd = server.client()
        routes = {"format": "tidegate.fleet-routes/1", "nodes": {}, "models": {"m": {"nodes": ["a"], "known": True}}}
        etcd.commit({}, {keys.key(LEADER): b"c", keys.key(ROUTES): json.dumps(routes).encode()})
        engine.terminate()
        eventually(lambda: nodes(server, "f")["a"].leaving)
        assert engine.process is not None
        assert engine.process.poll() is None
        routes["models"] = {"m": {"nodes": ["b"], "known": True}}
        etcd.commit({}, {keys.key(ROUTES): json.dumps(routes).encode()})
        etcd.close()
        assert engine.wait() == 0


def test_a_node_is_called_and_reached_as_its_config_says() -> None:
    addresses = EngineAddresses("0.0.0.0:1", "0.0.0.0:2", "0.0.0.0:3")
    config = EngineConfig(fleet=FleetConfig(etcd="e:2379", host="tide-1", labels={"gpu": "yes"}), memory_limit_bytes=7)
    assert node_of(config, addresses) == Node("tide-1-3", "tide-1:1", "tide-1:2", "tide-1:3", 7, {"gpu": "yes"})


def test_a_node_that_nobody_could_reach_is_refused(tmp_path: Path) -> None:
    fleet = FleetConfig(etcd="e:2379")
    EngineConfig(fleet=fleet, grpc_address="0.0.0.0:8500")  # as a router's
    text = 'grpc_address = "0.0.0.0:8500"\n[fleet]\netcd = "e:2379"\n'
    (tmp_path / "node.toml").write_text(text)
    command = [sys.executable, "-m", "tidegate_serving.server", "--config", str(tmp_path / "node.toml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "fleet.host is empty and grpc_address is 0.0.0.0:8500" in done.stderr
    with pytest.raises(InvalidInput, match=r"fleet\.etcd is set without control_address"):
        EngineConfig(fleet=fleet, control_address="")
    with pytest.raises(InvalidInput, match=r"node is 'a/b', it has '/': take"):
        FleetConfig(node="a/b")


@pytest.mark.parametrize("host", ["ünode", "node:8510", "fd00::7", "a node"])
def test_a_host_that_no_address_can_name_is_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match=r"host is '.*': write a name in letters of ASCII"):
        FleetConfig(host=host)


def test_nodes_that_share_a_config_have_their_names_from_variables(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('[fleet]\nnode = "all"\netcd = "e:2379"\nleave_seconds = 3\n')
    said = {"TIDEGATE_FLEET_NODE": "tide-0", "TIDEGATE_FLEET_HOST": "tide-0.tides", "TIDEGATE_FLEET_NAME": "north"}
    config = EngineConfig.load(tmp_path / "node.toml", env=said)
    assert config.fleet == FleetConfig(etcd="e:2379", node="tide-0", host="tide-0.tides", name="north", leave_seconds=3)
    assert config.origins["fleet.node"] == "variable TIDEGATE_FLEET_NODE"
    with pytest.raises(InvalidInput, match="TIDEGATE_FLEET_NODES is unknown: did you mean TIDEGATE_FLEET_NODE"):
        EngineConfig.load(tmp_path / "node.toml", env={"TIDEGATE_FLEET_NODES": "x"})
