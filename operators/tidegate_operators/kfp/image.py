"""The image that container components run: one name, with the version of this package."""

from __future__ import annotations

import os
from importlib import metadata

IMAGE = "tidegate/pipeline-steps"
VARIABLE = "TIDEGATE_IMAGE"


def default_image() -> str:
    """What TIDEGATE_IMAGE says, else IMAGE with the version of Tidegate that is installed here."""
    return os.environ.get(VARIABLE) or released_image()


def released_image() -> str:
    """IMAGE with the version of Tidegate that is installed here."""
    return f"{IMAGE}:{metadata.version('tidegate')}"
