"""The Kubernetes manifests of docker/ as objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3] / "docker/kubernetes"


@dataclass(frozen=True)
class Manifests:
    """One kustomization: its folder, itself, and all objects that it names."""

    folder: Path
    kustomization: Mapping[str, Any]
    objects: list[dict[str, Any]]

    def one(self, kind: str) -> Mapping[str, Any]:
        (found,) = [made for made in self.objects if made["kind"] == kind]
        return found


def read_manifests(folder: Path) -> Manifests:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    texts = [(folder / name).read_text() for name in kustomization["resources"]]
    return Manifests(folder, kustomization, [found for text in texts for found in yaml.safe_load_all(text)])
