"""The Kubernetes manifests: valid by the API's own schemas, and the parts fit together."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.orchestrators.kubernetes import ROOT, read_manifests

from tidegate_serving.config import EngineConfig

MANIFESTS = read_manifests(ROOT)
FOLDER, OBJECTS, one = MANIFESTS.folder, MANIFESTS.objects, MANIFESTS.one
POD = one("StatefulSet")["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]


def test_services_budget_and_network_policy_mean_the_engine() -> None:
    labels = POD["metadata"]["labels"].items()
    services = [made["spec"]["selector"] for made in OBJECTS if made["kind"] == "Service"]
    others = [one("PodDisruptionBudget")["spec"]["selector"], one("NetworkPolicy")["spec"]["podSelector"]]
    for selector in [*services, *(other["matchLabels"] for other in others)]:
        assert selector
        assert selector.items() <= labels


def test_ports_of_services_and_policy_are_the_container_s() -> None:
    names = {port["name"] for port in CONTAINER["ports"]}
    wanted = {port["targetPort"] for made in OBJECTS if made["kind"] == "Service" for port in made["spec"]["ports"]}
    allowed = {port["port"] for rule in one("NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]}
    assert wanted == allowed == names


def test_the_pod_has_longer_to_end_than_the_engine_to_drain() -> None:
    drain = config().drain_seconds
    pause = float(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["spec"]["terminationGracePeriodSeconds"] >= drain + pause + 5


def test_the_config_is_one_that_the_engine_takes_and_its_files_are_mounted() -> None:
    found = config()
    assert found.control_address == "0.0.0.0:8502"
    places = [mount["mountPath"] for mount in CONTAINER["volumeMounts"]]
    for path in (found.state_directory, found.log_path, found.control_certificate, found.control_access, *found.roots):
        assert any(Path(str(path)).is_relative_to(place) for place in places), path


def test_the_log_has_a_disk_of_its_own_that_its_upkeep_keeps_from_filling() -> None:
    log = str(config().log_path)
    (place,) = [mount for mount in CONTAINER["volumeMounts"] if Path(log).is_relative_to(mount["mountPath"])]
    assert not Path(str(config().state_directory)).is_relative_to(place["mountPath"])
    sizes = {
        claim["metadata"]["name"]: int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) * 2**30
        for claim in one("StatefulSet")["spec"]["volumeClaimTemplates"]
    }
    (upkeep,) = POD["spec"]["containers"][1:]
    assert place in upkeep["volumeMounts"]
    found = re.search(rf"tidegate log retain {log} --days \d+ --most-gb (\d+)", upkeep["args"][0])
    assert found is not None
    assert int(found[1]) * 1e9 < sizes[place["name"]] * 3 / 4, "a day that is not over yet stays"


def config() -> EngineConfig:
    return EngineConfig.load(FOLDER / "engine.toml")
