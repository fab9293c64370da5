"""Writes what this environment holds as a CycloneDX document: every distribution with version, licence and purl.

Runs while an image is built, with the image's own Python, and needs nothing but the standard library.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


def component(distribution: metadata.Distribution) -> dict[str, Any]:
    """One distribution as a CycloneDX component."""
    about = distribution.metadata
    name, version = about["Name"], distribution.version
    found: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
    }
    if "License-Expression" in about:
        found["licenses"] = [{"expression": about["License-Expression"]}]
    return found


def document() -> dict[str, Any]:
    """The whole environment, in the order of names."""
    components = sorted(map(component, metadata.distributions()), key=lambda one: str(one["name"]).lower())
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(document(), indent=1) + "\n")
