"""The fleet's composition: every service names what there is, and each process takes its config and its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from tests.support.neighbours.etcd import assert_arguments_are_known

from tidegate_serving.admission import read_trust
from tidegate_serving.config import EngineConfig
from tidegate_serving.control.access.access_file import read_access
from tidegate_serving.control.access.grants import Role

DOCKER = Path(__file__).parents[2] / "docker"
WHOLE = yaml.safe_load((DOCKER / "compose-fleet.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = WHOLE["services"]
SECRETS = Path("/run/tidegate")
SERVERS = ("controller-a", "controller-b", "node-a", "node-b", "router")


def mounted(name: str) -> list[str]:
    return [volume.split(":")[1] for volume in SERVICES[name].get("volumes", [])]


def config(name: str) -> EngineConfig:
    return EngineConfig.load(DOCKER / "fleet.toml", env=SERVICES[name].get("environment", {}))


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first start makes."""
    folder = tmp_path_factory.mktemp("secrets")
    made = [sys.executable, str(DOCKER / "make_secrets.py"), str(folder), *SERVICES["secrets"]["command"]]
    for _ in range(2):
        subprocess.run(made, check=True, capture_output=True)
    return folder


def test_services_and_volumes_that_are_named_are_there() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        named = [volume.split(":")[0] for volume in service.get("volumes", [])]
        assert {one for one in named if not one.startswith(".")} <= set(WHOLE["volumes"])
        assert all((DOCKER / one).is_file() for one in named if one.startswith("."))


@pytest.mark.parametrize("name", SERVERS)
def test_each_process_has_its_config_and_the_files_that_it_names(name: str, secrets: Path) -> None:
    found, places = config(name), mounted(name)
    assert "/etc/tidegate/fleet.toml" in places
    assert SERVICES[name]["command"][-1] == "/etc/tidegate/fleet.toml"
    if name == "router":
        return
    environment = SERVICES[name].get("environment", {})
    files = [found.control_certificate, found.control_key, found.control_access, *found.trusted_keys]
    files += [Path(environment[key]) for key in ("TIDEGATE_CA", "TIDEGATE_TOKEN_FILE") if key in environment]
    for path in files:
        assert path is not None
        assert (secrets / path.relative_to(SECRETS)).is_file(), path
    assert str(SECRETS) in places


@pytest.mark.parametrize("name", ["node-a", "node-b"])
def test_a_node_is_reached_by_its_service_and_logs_where_controllers_look(name: str) -> None:
    found = config(name)
    found.check_node()
    assert (found.fleet.node, found.fleet.host, str(found.log_path)) == (name, name, f"/var/log/tidegate/{name}")
    assert "/var/log/tidegate" in mounted("controller-a")
    grace = float(SERVICES[name]["stop_grace_period"].removesuffix("s"))
    assert grace >= found.fleet.leave_seconds + found.drain_seconds + 5


def test_control_ports_show_a_certificate_for_each_host_and_take_the_controllers_token(secrets: Path) -> None:
    certificate = x509.load_pem_x509_certificate((secrets / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = set(names.get_values_for_type(x509.DNSName))
    assert hosts == {name for name in SERVERS if name != "router"}
    assert SERVICES["tools"]["environment"]["TIDEGATE_CONTROL"].split(":")[0] in hosts
    token = (secrets / "hub-engine.token").read_text()
    grant = read_access(secrets / "access.toml").by_token(token)
    assert grant.role is Role.OPERATE
    read_trust([secrets / "validator.pub"])


def test_etcd_knows_its_arguments() -> None:
    assert_arguments_are_known(SERVICES["etcd"]["command"])
