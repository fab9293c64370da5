"""TLS from a router to nodes that ask for its certificate, and the router's own, each read again when files change."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish
from tests.support.neighbours.certificates import Authority, Pair
from tests.support.neighbours.fleet import Fleet, RouterProcess, fleet_over

from tidegate_operators.steps.push import push
from tidegate_serving.client import Client
from tidegate_serving.config import FleetConfig
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError, Unavailable
from tidegate_serving.fleet.router.node_certificates import NodeCertificates
from tidegate_serving.requests.forwarder import NodePem
from tidegate_serving.sources.problems import SourceProblems


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Fleet]:
    """One node that takes connections of those alone whose certificate the authority signed."""
    shown = authority.issue("node")
    with fleet_over(tmp_path_factory.mktemp("fleet")) as running:
        files: dict[str, Any] = {
            "data_certificate": shown.certificate,
            "data_key": shown.key,
            "data_client_ca": authority.file,
        }
        running.node("a", **files).await_ready()
        controller = running.controller().await_ready()
        eventually(lambda: running.view().nodes)
        push(directory=publish(running.root, "m", 1, adding(1)), control=controller.address)
        eventually(lambda: running.routes("m"))
        yield running


def answers(router: RouterProcess, connection: EngineConnection) -> float | None:
    """What it answers; None while it does not know its routes."""
    try:
        with Client(connection) as client:
            return float(client.predict("m", {"x": np.array([1.0], np.float32)})["y"][0])
    except (NotFound, Unavailable):
        return None


def refusal(connection: EngineConnection) -> str:
    try:
        with Client(connection) as client:
            client.predict("m", {"x": np.array([1.0], np.float32)})
    except TidegateError as error:
        return error.message
    return ""


def test_a_router_reaches_nodes_over_mutual_tls_and_shows_its_own_certificate_anew(
    fleet: Fleet, authority: Authority, tmp_path: Path
) -> None:
    own, of_nodes = authority.issue("router"), authority.issue("router-to-nodes")
    router = fleet.router(
        {"node_ca": str(authority.file), "node_certificate": str(of_nodes.certificate), "node_key": str(of_nodes.key)},
        data_certificate=str(own.certificate),
        data_key=str(own.key),
    ).await_ready()
    connection = EngineConnection((router.addresses["grpc"],), tls=True, ca=authority.file)
    assert eventually(lambda: answers(router, connection)) == 2.0
    rest = f"https://{router.addresses['rest']}/v1/models/m:predict"
    answer = requests.post(rest, json={"instances": [1.0]}, verify=str(authority.file), timeout=60)
    assert answer.json() == {"predictions": [2.0]}
    host, _, port = router.addresses["rest"].rpartition(":")
    before = ssl.get_server_certificate((host, int(port)))
    authority.issue("renewed", file="router")
    eventually(lambda: ssl.get_server_certificate((host, int(port))) != before)


def test_whose_certificates_of_nodes_are_taken_is_read_again_and_said(
    fleet: Fleet, authority: Authority, tmp_path: Path
) -> None:
    shown, trusted = authority.issue("other-router"), tmp_path / "trusted.pem"
    shutil.copy(Authority(tmp_path, "another").file, trusted)
    table = {"node_ca": str(trusted), "node_certificate": str(shown.certificate), "node_key": str(shown.key)}
    router = fleet.router(table).await_ready()
    connection = EngineConnection((router.addresses["grpc"],))
    eventually(lambda: "fleet.node_ca has to name who signed the node's certificate" in refusal(connection))
    shutil.copy(authority.file, trusted)
    assert eventually(lambda: answers(router, connection)) == 2.0


class Told:
    def __init__(self) -> None:
        self.pems: list[NodePem] = []

    def set_node_tls(self, tls: NodePem) -> None:
        self.pems.append(tls)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("unit")


def test_files_that_break_are_said_and_the_ones_from_before_stay(authority: Authority, pair: Pair) -> None:
    problems, told = SourceProblems(), Told()
    files = NodeCertificates(
        FleetConfig(node_ca=authority.file, node_certificate=pair.certificate, node_key=pair.key), problems
    )
    assert files.read() == (authority.file.read_bytes(), (pair.certificate.read_bytes(), pair.key.read_bytes()), None)
    files.watch(told)
    files.look()
    assert not told.pems
    key = pair.key.read_text()
    pair.key.write_text("broken")
    (problem,) = eventually(problems.of_sources)
    assert f"fleet.node_key {pair.key} is no PEM key" in problem.error.message
    assert problem.error.message.endswith("connections to nodes begin with the certificates from before")
    pair.key.write_text(key)
    eventually(lambda: not problems.of_sources() and len(told.pems) == 1)
    files.stop()


def test_what_is_missing_is_named_with_its_key(tmp_path: Path, authority: Authority) -> None:
    nowhere = tmp_path / "nowhere.pem"
    with pytest.raises(NotFound, match=rf"fleet\.node_ca {nowhere} is missing: put a PEM file there"):
        NodeCertificates(FleetConfig(node_ca=nowhere), SourceProblems()).read()
    with pytest.raises(InvalidInput, match="node_certificate is given without node_key"):
        FleetConfig(node_ca=authority.file, node_certificate=nowhere)
    with pytest.raises(InvalidInput, match="node_server_name is given without node_ca"):
        FleetConfig(node_server_name="nodes.example.com")
