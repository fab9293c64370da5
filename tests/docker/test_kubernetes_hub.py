"""The hub's Kubernetes manifests: valid by the API's own schemas, and the parts fit together, and to the engines'."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.support.orchestrators.kubernetes import ROOT, read_manifests

from tidegate_pipelines.hub.config import HubConfig

MANIFESTS = read_manifests(ROOT / "hub")
FOLDER, one = MANIFESTS.folder, MANIFESTS.one
POD = one("Deployment")["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]
SECRETS = Path("/etc/tidegate/hub")


def test_service_budget_and_network_policy_mean_the_hub() -> None:
    labels = POD["metadata"]["labels"].items()
    others = [one("PodDisruptionBudget")["spec"]["selector"], one("NetworkPolicy")["spec"]["podSelector"]]
    for selector in (one("Service")["spec"]["selector"], *(other["matchLabels"] for other in others)):
        assert selector
        assert selector.items() <= labels


def test_ports_of_service_policy_and_probes_are_the_container_s() -> None:
    names = {port["name"] for port in CONTAINER["ports"]}
    wanted = {port["targetPort"] for port in one("Service")["spec"]["ports"]}
    allowed = {port["port"] for rule in one("NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]}
    probes = [CONTAINER[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")]
    asked = {(probe.get("httpGet") or probe["tcpSocket"])["port"] for probe in probes}
    assert wanted == allowed == asked == names


def test_the_engines_policy_lets_the_hub_to_their_control_ports() -> None:
    policy = yaml.safe_load((FOLDER.parent / "network-policy.yaml").read_text())
    (source,) = policy["spec"]["ingress"][1]["from"]
    assert source["podSelector"]["matchLabels"].items() <= POD["metadata"]["labels"].items()


def test_a_replica_may_go_while_another_stays() -> None:
    assert one("Deployment")["spec"]["replicas"] > one("PodDisruptionBudget")["spec"]["maxUnavailable"]


def test_the_config_is_one_that_the_hub_takes_and_its_files_are_mounted() -> None:
    config = HubConfig.load(FOLDER / "hub.toml", env={})
    places = [Path(mount["mountPath"]) for mount in CONTAINER["volumeMounts"]]
    access, releases = config.access, config.releases
    secrets = [access.file, access.certificate, access.key, config.mlflow.webhook_secret_file, releases.private_key]
    secrets += [Path(one["value"]) for one in CONTAINER["env"] if "value" in one]
    for path in (config.directory, releases.repository, *secrets):
        assert any(path is not None and path.is_relative_to(place) for place in places), path
    assert all(path is not None and path.parent == SECRETS for path in secrets)
    assert config.engines["engines"].profile
