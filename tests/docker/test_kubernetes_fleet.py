"""The fleet's Kubernetes manifests: valid by the API's own schemas, and the parts fit together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.neighbours.etcd import assert_arguments_are_known
from tests.support.orchestrators.kubernetes import ROOT, read_manifests

from tidegate_serving.config import EngineConfig
from tidegate_serving.connection import EngineConnection

MANIFESTS = read_manifests(ROOT / "fleet")
FOLDER, KUSTOMIZATION, OBJECTS = MANIFESTS.folder, MANIFESTS.kustomization, MANIFESTS.objects
PODS = {made["metadata"]["name"]: made["spec"] for made in OBJECTS if made["kind"] in ("Deployment", "StatefulSet")}
OURS = ("controller", "node", "router")


def of(kind: str) -> dict[str, Mapping[str, Any]]:
    return {made["metadata"]["name"]: made["spec"] for made in OBJECTS if made["kind"] == kind}


def container(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any]
    (found,) = PODS[f"tidegate-{name}"]["template"]["spec"]["containers"]
    return found


def variables(name: str) -> dict[str, str]:
    """Those with a value, as a pod called tidegate-node-0 has them."""
    given = {one["name"]: one.get("value", "tidegate-node-0") for one in container(name).get("env", [])}
    return {key: value.replace("$(TIDEGATE_FLEET_NODE)", "tidegate-node-0") for key, value in given.items()}


def config(name: str) -> EngineConfig:
    return EngineConfig.load(FOLDER / f"{name}.toml", env=variables(name))


def test_every_config_is_handed_out() -> None:
    (made,) = KUSTOMIZATION["configMapGenerator"]
    assert {path.name for path in FOLDER.glob("*.toml")} == set(made["files"])


def test_each_kind_of_pod_has_a_budget_a_policy_and_a_service_that_mean_it() -> None:
    names = {spec["template"]["metadata"]["labels"]["app.kubernetes.io/name"] for spec in PODS.values()}
    assert names == set(PODS)
    selectors = [
        [one["selector"]["matchLabels"] for one in of("PodDisruptionBudget").values()],
        [one["podSelector"]["matchLabels"] for one in of("NetworkPolicy").values()],
        [one["selector"] for one in of("Service").values()],
    ]
    for found in selectors:
        assert {one["app.kubernetes.io/name"] for one in found} == names


def test_ports_of_services_policies_and_probes_are_the_containers() -> None:
    for kind, key in (("Service", "targetPort"), ("NetworkPolicy", "port")):
        for spec in of(kind).values():
            selector = spec["selector"] if kind == "Service" else spec["podSelector"]["matchLabels"]
            (pod,) = PODS[selector["app.kubernetes.io/name"]]["template"]["spec"]["containers"]
            ports = spec["ports"] if kind == "Service" else [one for rule in spec["ingress"] for one in rule["ports"]]
            assert {one[key] for one in ports} <= {one["name"] for one in pod["ports"]}
    for spec in PODS.values():
        (pod,) = spec["template"]["spec"]["containers"]
        for probe in ("livenessProbe", "readinessProbe"):
            asked = pod[probe].get("httpGet") or pod[probe]["tcpSocket"]
            assert asked["port"] in {one["name"] for one in pod["ports"]}


def test_whoever_asks_etcd_or_a_node_is_let_in() -> None:
    policies = of("NetworkPolicy")
    (asks,) = policies["tidegate-etcd"]["ingress"][0]["from"]
    for name in OURS:
        labels = PODS[f"tidegate-{name}"]["template"]["metadata"]["labels"]
        assert asks["podSelector"]["matchLabels"].items() <= labels.items()
    routers, controllers = policies["tidegate-node"]["ingress"]
    assert routers["from"][0]["podSelector"]["matchLabels"] == PODS["tidegate-router"]["selector"]["matchLabels"]
    assert (
        controllers["from"][0]["podSelector"]["matchLabels"] == PODS["tidegate-controller"]["selector"]["matchLabels"]
    )


@pytest.mark.parametrize("name", OURS)
def test_each_config_is_one_that_is_taken_and_its_files_are_mounted(name: str) -> None:
    found = config(name)
    connection = EngineConnection.of(found.fleet.etcd)
    places = [mount["mountPath"] for mount in container(name)["volumeMounts"]]
    files: list[Path | str | None] = [
        found.state_directory,
        found.log_path,
        found.control_certificate,
        found.control_access,
        *found.roots,
    ]
    files += [connection.ca, connection.certificate, connection.key]
    files += [
        variables(name).get("TIDEGATE_CA"),
        variables(name).get("TIDEGATE_TOKEN_FILE"),
        f"/etc/tidegate/config/{name}.toml",
    ]
    for path in filter(None, files):
        assert any(Path(str(path)).is_relative_to(place) for place in places), path
    assert f"/etc/tidegate/config/{name}.toml" in container(name)["args"]


def test_controllers_see_the_models_whose_bytes_they_count() -> None:
    mounts = {name: {one["mountPath"]: one["name"] for one in container(name)["volumeMounts"]} for name in OURS[:2]}
    for root in map(str, config("node").roots):
        assert mounts["controller"][root] == mounts["node"][root]
    volumes = [
        {one["name"]: one for one in PODS[f"tidegate-{name}"]["template"]["spec"]["volumes"]} for name in OURS[:2]
    ]
    assert volumes[0]["models"] == volumes[1]["models"]


def test_a_pod_has_longer_to_end_than_what_it_runs() -> None:
    for name in ("node", "router"):
        found = config(name)
        leaves = found.fleet.leave_seconds if name == "node" else 0.0
        pause = float(container(name)["lifecycle"]["preStop"]["exec"]["command"][1])
        grace = PODS[f"tidegate-{name}"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert grace >= leaves + found.drain_seconds + pause + 5


def test_a_node_is_reached_by_the_name_that_its_service_gives_it() -> None:
    node = config("node")
    node.check_node()
    assert (node.fleet.node, node.fleet.host) == ("tidegate-node-0", "tidegate-node-0.tidegate-nodes")
    assert PODS["tidegate-node"]["serviceName"] == "tidegate-nodes"
    assert of("Service")["tidegate-nodes"]["clusterIP"] == "None"
    assert str(node.log_path) == "/log/tidegate-node-0"
    limit = container("node")["resources"]["limits"]["memory"]
    assert node.fleet.capacity_bytes < int(limit.removesuffix("Gi")) * 2**30


def test_the_log_that_all_nodes_write_to_is_kept_from_filling() -> None:
    (upkeep,) = [spec["jobTemplate"]["spec"]["template"]["spec"] for spec in of("CronJob").values()]
    volumes = {one["name"]: one for one in PODS["tidegate-node"]["template"]["spec"]["volumes"]}
    assert volumes["logs"] in upkeep["volumes"]
    (job,) = upkeep["containers"]
    (place,) = [mount["mountPath"] for mount in job["volumeMounts"] if mount["name"] == "logs"]
    assert job["command"][:4] == ["tidegate", "log", "retain", place]
    assert Path(str(config("node").log_path)).parent == Path(place)


def test_a_majority_of_etcd_outlives_what_a_budget_lets_go() -> None:
    members = PODS["tidegate-etcd"]["replicas"]
    assert members - of("PodDisruptionBudget")["tidegate-etcd"]["maxUnavailable"] > members / 2
    (cluster,) = [one for one in container("etcd")["args"] if one.startswith("--initial-cluster=")]
    assert cluster.count("https://tidegate-etcd-") == members


def test_etcd_knows_its_arguments() -> None:
    assert_arguments_are_known(container("etcd")["args"])
