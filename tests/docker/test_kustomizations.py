"""Every Kubernetes base of docker/: objects as the API's own schemas have them, and no file that nobody applies."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from tests.support.orchestrators.kubernetes import ROOT, Manifests, read_manifests

BASES = {name or "engines": read_manifests(ROOT / name) for name in ("", "fleet", "hub")}
OBJECTS = [made for base in BASES.values() for made in base.objects]
PODS = [made for made in OBJECTS if "template" in made.get("spec", {})]


@pytest.mark.parametrize("made", OBJECTS, ids=lambda made: f"{made['kind']}-{made['metadata']['name']}")
def test_each_is_what_the_api_takes(made: dict[str, Any]) -> None:
    newest = kubernetes_validate.latest_version()
    assert newest.startswith(kubernetes_validate.validate(made, newest, strict=True)), "what does not fit is raised"


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_every_file_belongs_to_the_whole(base: Manifests) -> None:
    assert {path.name for path in base.folder.glob("*.yaml")} == {
        *base.kustomization["resources"],
        "kustomization.yaml",
    }


@pytest.mark.parametrize("made", PODS, ids=lambda made: f"{made['kind']}-{made['metadata']['name']}")
def test_no_service_of_the_namespace_makes_variables_in_a_pod(made: dict[str, Any]) -> None:
    """TIDEGATE_FLEET_PORT, which Kubernetes makes of a service `tidegate-fleet`, is no key of the config."""
    assert made["spec"]["template"]["spec"].get("enableServiceLinks") is False
